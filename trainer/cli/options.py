"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

if TYPE_CHECKING:
    from .driver import Driver

RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN.toml", help="Run file: settings that differ from the defaults.")
]
OverridesArgument: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Overrides of the run file's settings, such as rollout.groups=8 seed=1.",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ForceOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace an earlier run of the same name: it is deleted once this one has begun to train.",
    ),
]


def driver_of(context: typer.Context) -> Driver:
    """Return the driver of this command line."""
    return cast("Driver", context.obj)
