"""Dialects of model endpoints: their requests as ``ModelCall``, and ``ModelReply`` as their answers."""
