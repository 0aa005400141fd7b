"""Trained reward models: their folders, scores here or over HTTP, guards against exploitation."""
