"""Recorded data: read episodes and preferences, check and select them, and pair them for training."""
