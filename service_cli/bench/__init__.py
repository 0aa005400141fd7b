"""Measures the service through HTTP, each figure beside a yardstick of the same run."""
