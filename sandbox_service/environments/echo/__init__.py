"""Echo: a trivial pure-data environment."""
