"""What a model's folder says about its tokenizer, apart from the chat template."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

__all__ = ["check_vocabulary", "context_tokens", "declared_ends", "load_tokenizer"]

_LOG = logging.getLogger(__name__)
_SPARE = 1.1
"""Rows of an embedding for each token: models pad their vocabulary by a few percent."""


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The folder's tokenizer. Raises ConfigError where there is none that can be loaded."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # A folder that names this class says all in tokenizer.json; AutoTokenizer would go by the model's shape.
    named = _read(folder / "tokenizer_config.json").get("tokenizer_class")
    loader = PreTrainedTokenizerFast if named == "TokenizersBackend" else AutoTokenizer
    try:
        tokenizer: PreTrainedTokenizerBase = loader.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} holds no tokenizer that can be loaded: {error}") from error
    return tokenizer


def declared_ends(folder: Path, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Ids of the tokens that end a generation, by ``generation_config.json`` and by the tokenizer."""
    ends = _read(folder / "generation_config.json").get("eos_token_id")
    found = [end for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int)]
    if tokenizer.eos_token_id is not None:
        found.append(int(tokenizer.eos_token_id))
    return tuple(dict.fromkeys(found))


def context_tokens(folder: Path) -> int | None:
    """Positions of the model; None when its config does not tell."""
    return _number(_read(folder / "config.json"), "max_position_embeddings")


def check_vocabulary(folder: Path, tokenizer: PreTrainedTokenizerBase, ends: tuple[int, ...]) -> None:
    """Check that tokenizer and model belong together. Raises ConfigError where tokens have no embedding."""
    rows = _number(_read(folder / "config.json"), "vocab_size")
    if rows is None:
        return
    most = max(tokenizer.vocab_size - 1, *ends)
    if most >= rows:
        raise ConfigError(
            f"the tokenizer in {folder} has a token {most}, and the model's vocab_size is {rows}: they do "
            "not belong together; take both from one model, or resize the model's embeddings"
        )
    if len(tokenizer) * _SPARE < rows:
        _LOG.warning(
            "the model in %s has a vocabulary of %d, and its tokenizer knows %d tokens: what is sampled "
            "beyond them has no text; check that both are of one model",
            folder,
            rows,
            len(tokenizer),
        )


def _number(config: dict[str, object], name: str) -> int | None:
    text = config.get("text_config")
    value = config.get(name)
    if value is None and isinstance(text, dict):
        value = text.get(name)
    return value if isinstance(value, int) else None


def _read(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
