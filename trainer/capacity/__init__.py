"""Compute a run's needs of memory, GPUs and disk by arithmetic. Nothing is started or allocated."""
