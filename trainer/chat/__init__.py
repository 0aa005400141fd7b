"""Conversations as tokens, and tokens as actions."""

from .tokenizer import ChatTokenizer

__all__ = ["ChatTokenizer"]
