"""Families of questions: what may be asked about a schema, in words and in SQL."""
