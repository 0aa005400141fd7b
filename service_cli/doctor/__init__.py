"""Examine a machine before a service runs on it, and say how to fix what is wrong."""
