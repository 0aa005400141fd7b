"""Folders of small reward models with random weights, over the tiny model's tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from tests.harness.tiny_chat import tiny_folder
from trainer.reward_models.fingerprint import folder_fingerprint
from trainer.reward_models.note import RewardModelNote, write_note


def reward_folder(
    folder: Path, *, seed: int = 0, mean: float = 0.0, deviation: float = 1.0, weights: float | None = None
) -> Path:
    """A model of whole episodes, as transformers writes it, with the trainer's note.

    Its head has random weights, or all the same.
    """
    return _written(folder, AutoModelForSequenceClassification, seed, ("reward",), mean, deviation, weights)


def process_folder(
    folder: Path,
    *,
    seed: int = 0,
    dimensions: tuple[str, ...] = ("correctness",),
    weights: float | None = None,
) -> Path:
    """A process reward model."""
    return _written(folder, AutoModelForTokenClassification, seed, dimensions, 0.0, 1.0, weights)


def _written(
    folder: Path,
    kind: type,
    seed: int,
    dimensions: tuple[str, ...],
    mean: float,
    deviation: float,
    weights: float | None,
) -> Path:
    source = tiny_folder()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind.from_pretrained(source, num_labels=len(dimensions))
        torch.nn.init.normal_(model.score.weight)
        if weights is not None:
            torch.nn.init.constant_(model.score.weight, weights)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (source / name).exists():
            shutil.copy(source / name, folder / name)
    write_note(
        folder,
        RewardModelNote(
            kind="outcome" if dimensions == ("reward",) else "process",
            dimensions=dimensions,
            mean=mean,
            deviation=deviation,
            tokenizer=folder_fingerprint(source),
        ),
    )
    return folder
