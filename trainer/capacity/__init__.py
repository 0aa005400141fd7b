"""What a run needs of machines, by arithmetic: memory, placement, disk. Nothing is started or allocated."""
