"""Convert conversations to tokens, and tokens to actions."""

from .answers import named, numbered
from .tokenizer import HEAD_TOKENS, ChatTokenizer

__all__ = ["HEAD_TOKENS", "ChatTokenizer", "named", "numbered"]
