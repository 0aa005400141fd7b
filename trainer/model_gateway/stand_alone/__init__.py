"""The model gateway as a service of its own, over any vLLM server: sessions are opened and read over HTTP."""
