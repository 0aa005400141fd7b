"""Programs that run under an agent's user id, beside code that a model wrote."""
