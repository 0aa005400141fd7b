"""Benchmark the service through HTTP; each figure is reported with a yardstick of the same run."""
