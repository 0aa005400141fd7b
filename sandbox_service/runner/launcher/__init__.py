"""The launcher: the one process that starts, owns, kills and cleans up agent processes."""
