"""Encode and decode text with the tokenizer's own library, which releases the GIL.

transformers sets truncation and padding for each text, which is not thread-safe, and requests offsets that
are not used. Tokenizers written in Python go through transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Coder:
    """Encodes and decodes without adding or skipping tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        if self._backend is not None:
            self._backend.no_truncation()
            self._backend.no_padding()
            self._backend.encode_special_tokens = False
        self.threaded = self._backend is not None
        """Whether several threads may use it at a time."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Lone surrogates, which tokenizers reject, become ``?``."""
        clean = text.encode("utf-8", "replace").decode()
        if self._backend is None:
            return list(self._tokenizer.encode(clean, add_special_tokens=False))
        (encoding,) = self._backend.encode_batch_fast([clean], add_special_tokens=False)
        return list(encoding.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special ones included."""
        if self._backend is None:
            given = list(ids)
            return str(
                self._tokenizer.decode(given, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            )
        return str(self._backend.decode(ids, skip_special_tokens=False))
