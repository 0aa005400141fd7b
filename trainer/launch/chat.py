"""Check a model's chat template before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer.chat import ChatTokenizer
from trainer.config.model import TinyModel

if TYPE_CHECKING:
    from trainer.config import ChatConfig, ModelConfig


def check_chat(model: ModelConfig, chat: ChatConfig, folder: Path) -> None:
    """Check that a model's folder and the run's settings make a working chat. Raises ConfigError.

    A tiny model keeps the template that it was created with and needs no check.
    """
    if not isinstance(model, TinyModel) or chat.template is not None:
        ChatTokenizer(folder, chat)
