"""The smallest model folder with a tokenizer, made once a test session, and chat tokenizers of it."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from trainer.chat import ChatTokenizer
from trainer.config.model import ChatConfig, TinyModel
from trainer.models import model_folder

__all__ = ["tiny_chat", "tiny_folder"]


@functools.cache
def tiny_folder(tokenizer: str = "bpe", family: str = "qwen2") -> Path:
    """A model of one layer."""
    config = TinyModel.model_validate(
        {"tokenizer": tokenizer, "family": family, "hidden": 32, "layers": 1, "heads": 2}
        | {"key_value_heads": 2, "feed_forward": 32, "context": 512}
    )
    folder = Path(tempfile.mkdtemp(prefix="tiny-models-"))
    atexit.register(shutil.rmtree, folder)
    return model_folder(config, folder)


@functools.cache
def _chat(tokenizer: str, config: str) -> ChatTokenizer:
    return ChatTokenizer(tiny_folder(tokenizer), ChatConfig.model_validate_json(config))


def tiny_chat(tokenizer: str = "bpe", **config: object) -> ChatTokenizer:
    """A chat tokenizer of the tiny model."""
    return _chat(tokenizer, ChatConfig.model_validate(config).model_dump_json())
