"""A bike rental's service desk: a policy, a database, tools, and a customer with a request."""
