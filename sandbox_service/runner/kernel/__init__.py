"""What the runner asks of the kernel: privileges, /proc, killing, removal. Linux only."""
