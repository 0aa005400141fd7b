"""Checks of environments: one file for each promise, without anything about a particular environment."""
