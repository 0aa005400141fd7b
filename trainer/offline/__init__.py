"""Stages on recorded data: rows are read, tokenized as in an episode, and cut into batches."""
