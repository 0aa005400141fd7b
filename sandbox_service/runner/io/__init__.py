"""How the runner's processes read and write: sockets, packets, frames, the event loop."""
