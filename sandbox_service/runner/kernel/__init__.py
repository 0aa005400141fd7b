"""Kernel interfaces of the runner: privileges, /proc, killing, removal. Linux only."""
