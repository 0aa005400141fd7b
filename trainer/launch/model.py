"""Check that a run's model can be trained as configured, before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from trainer.errors import ConfigError
from trainer.update.model import make_model

if TYPE_CHECKING:
    from trainer.config import LearnerSettings


_LEAST_SHARE = 0.5
"""Least share of the model's vocabulary that its tokenizer must have; models have a few spare entries."""


def check_model(settings: LearnerSettings, folder: Path) -> None:
    """Build the model without weights, and check its files' names and sizes and its tokenizer.

    Raises:
        ConfigError: an unknown architecture, a layout that it does not allow, weights that are missing or
            have other sizes, or the tokenizer of another model.
    """
    device = torch.device("cuda" if settings.learner.gpus else "cpu")
    core = make_model(folder, settings, device)
    rows = cast("torch.Tensor", core.language.get_input_embeddings().weight).shape[0]
    tokens = _vocabulary_size(folder)
    if tokens is None:
        return
    if tokens > rows:
        raise ConfigError(
            f"model.path: the tokenizer in {folder} has {tokens} tokens, but the model's "
            f"embedding has {rows}; the tokenizer belongs to another model, or the "
            "embedding has to be resized"
        )
    if tokens < _LEAST_SHARE * rows:
        raise ConfigError(
            f"model.path: the tokenizer in {folder} has {tokens} tokens of the model's "
            f"{rows}; it belongs to another model"
        )


def _vocabulary_size(folder: Path) -> int | None:
    """Return the number of tokens that the tokenizer may produce; None when tokenizer.json does not have it,
    which is checked elsewhere.
    """
    try:
        content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        tokens = content["model"]["vocab"]
        ids = tokens.values() if isinstance(tokens, dict) else range(len(tokens))
        added = [each["id"] for each in content.get("added_tokens", ())]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return max((*ids, *added), default=-1) + 1
