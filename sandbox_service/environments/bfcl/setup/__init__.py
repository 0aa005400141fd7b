"""How the environment is set up: its packages, and the preparation of its data. Never in a box."""
