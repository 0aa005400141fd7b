"""What runs under an agent's user id, beside code that a model wrote."""
