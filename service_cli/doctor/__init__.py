"""Examine a machine before a service runs on it, and say how to mend what is wrong."""
