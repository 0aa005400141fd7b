"""Search QA: questions of one to three steps over an encyclopedia of invented things, with BM25 search."""
