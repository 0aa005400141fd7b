"""``sandbox-trainer model``: a tiny model of one's own, made offline in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainer.config import TinyModel
from trainer.config.reading import read_part

from .options import driver_of
from .terminal import explained, results

__all__ = ["model"]


def model(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write it, in Hugging Face's format.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="Its settings, such as family=llama layers=2; those of model.* of a run.",
        ),
    ] = None,
) -> None:
    """Make a small model with random weights and a tokenizer of its own, without a download.

    A run makes the same by itself (model.kind=tiny). This is for looking at it, or for other programs.

    Examples:

        sandbox-trainer model var/tiny

        sandbox-trainer model var/wide hidden=256 layers=6 vocabulary=1024 tokenizer=bytes
    """
    with explained():
        settings = read_part(TinyModel, words or (), example="hidden=256")
        driver_of(context).make_model(settings, folder)
    results().print(f"made {folder}", markup=False)
