"""Text-to-SQL on generated databases: a question, a read-only database, and a query as the answer."""
