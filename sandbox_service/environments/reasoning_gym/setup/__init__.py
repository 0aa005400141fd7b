"""Set-up of the environment: its packages, and the preparation of its data. Never in a box."""
