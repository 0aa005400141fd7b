"""``sandbox-trainer model``: create a tiny model, offline and in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainer.config import TinyModel
from trainer.config.reading import read_part
from trainer.errors import ConfigError

from .options import driver_of
from .output_files import check_named
from .terminal import explained, results


def model(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write the model, in Hugging Face's format.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help=(
                "Settings of the model, such as family=llama layers=2; the same as a run's model.* settings."
            ),
        ),
    ] = None,
) -> None:
    """Create a small model with random weights and a tokenizer, without a download.

    A run creates the same model by itself (model.kind=tiny). This command is for inspecting it, or for other
    programs.

    Examples:

        sandbox-trainer model var/tiny

        sandbox-trainer model var/wide hidden=256 layers=6 vocabulary=1024 tokenizer=bytes
    """
    with explained():
        check_named(folder)
        settings = read_part(TinyModel, overrides or (), example="hidden=256")
        if (folder / "config.json").exists():
            raise ConfigError(f"{folder} has a model already: remove it, or choose another folder")
        driver_of(context).make_model(settings, folder)
    results().print(f"wrote {folder}", markup=False)
