"""Runs the tests in several processes and adds up the outcomes."""
