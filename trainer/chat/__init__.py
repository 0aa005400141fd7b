"""Convert conversations to tokens, and tokens to actions."""

from .tokenizer import HEAD_TOKENS, ChatTokenizer

__all__ = ["HEAD_TOKENS", "ChatTokenizer"]
