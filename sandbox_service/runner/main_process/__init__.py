"""The main process of a box: it serves the host's frames and owns the instances."""
