"""Options of ``sandbox-service run``; what only some policies read begins with the policy's name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from service_cli.policies.selection import NAMES


class ToolForm(StrEnum):
    """How a model is told of tools."""

    NATIVE = "native"
    TEXT = "text"


EnvironmentOption: TypeAlias = Annotated[str, typer.Option("--env", "-e", help="The environment.")]
SplitOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="A split, or several; the environment's default when missing.")
]
PolicyOption: TypeAlias = Annotated[
    str, typer.Option("--policy", "-p", metavar="POLICY", help=f"What acts: {', '.join(NAMES)}.")
]
ScriptOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help='script: JSONL of {"task_id": ..., "messages": [...]}.', exists=True, dir_okay=False),
]
ConcurrencyOption: TypeAlias = Annotated[
    int, typer.Option("--concurrency", "-n", min=1, help="Episodes at a time.")
]
LimitOption: TypeAlias = Annotated[int | None, typer.Option(min=1, help="At most so many tasks.")]
SeedOption: TypeAlias = Annotated[
    int, typer.Option(min=0, help="Seed of each task's first episode, and of the random policy.")
]
RepeatOption: TypeAlias = Annotated[
    int, typer.Option("--repeat", "-k", min=1, help="Episodes a task, each with the next seed; gives pass@K.")
]
MaxStepsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Stop after so many steps; the environment's own limit holds anyway."),
]
TemperatureOption: TypeAlias = Annotated[
    float | None, typer.Option(min=0, help="openai: sampling temperature; the server's own when missing.")
]
MaxTokensOption: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="openai: longest answer; the server's own limit when missing.")
]
TimeoutOption: TypeAlias = Annotated[
    float, typer.Option(min=0.1, help="openai: seconds for one answer, repeated attempts included.")
]
ToolsOption: TypeAlias = Annotated[
    ToolForm, typer.Option(help="openai: send tools as such, or as text where a server knows no tool calls.")
]
ModelKeyOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="KEY", envvar="OPENAI_API_KEY", help="openai: key of the model server."),
]
OutputOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", dir_okay=False, help="Write episodes and messages, as JSONL."
    ),
]
ShowOption: TypeAlias = Annotated[bool, typer.Option("--show", help="Show one trajectory at the end.")]
