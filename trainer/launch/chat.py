"""Checks a model's chat before anything is started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.chat import ChatTokenizer
from trainer.config.model import TinyModel

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.config import RunConfig

__all__ = ["check_chat"]


def check_chat(config: RunConfig, model: Path) -> None:
    """Check that a model's folder and the run's settings make a chat. Raises ConfigError.

    A tiny model with the template that it was made with needs no check.
    """
    if not isinstance(config.model, TinyModel) or config.chat.template is not None:
        ChatTokenizer(model, config.chat)
