"""Start, watch and end processes on this machine: the standard library and psutil only."""
