"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias, cast

import typer

from .driver import Driver

__all__ = ["ForceOption", "JsonOption", "RunArgument", "WordsArgument", "driver_of"]

RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN.toml", help="The run's file: settings that differ from the defaults.")
]
WordsArgument: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="Settings that win over the file, such as rollout.groups=8 seed=1."
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ForceOption: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Remove an earlier run of the same name first.")
]


def driver_of(context: typer.Context) -> Driver:
    """Who does the work of this command line."""
    return cast("Driver", context.obj)
