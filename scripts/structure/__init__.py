"""Measures the structure of a source tree: sizes, names, wording, and the functions on the path of a call."""
