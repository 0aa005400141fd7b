"""Agents with a loop of their own play a run's episodes: how they are run, and what they are given."""
