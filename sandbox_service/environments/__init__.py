"""Environments: one folder for each, with its catalogue, its world, its set-up and its data."""
