"""Feedback on explored episodes: sources behind one protocol, and their aggregation to a value."""
