"""Input and output of the runner's processes: sockets, packets, frames, the event loop."""
