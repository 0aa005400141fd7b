"""AppWorld: apps of daily life behind 457 APIs, acted in by writing Python."""
