"""Bug fixes: defects in open-source packages, proven by their tests, as tasks in Harbor's format."""
