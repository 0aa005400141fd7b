"""What tasks mean: one folder an environment."""
