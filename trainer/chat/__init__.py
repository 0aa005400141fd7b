"""Conversations as tokens, and tokens as actions."""

from .tokenizer import HEAD_TOKENS, ChatTokenizer

__all__ = ["HEAD_TOKENS", "ChatTokenizer"]
