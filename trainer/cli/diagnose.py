"""``sandbox-trainer diagnose``: say what is wrong with a run, and what to try."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from trainer.errors import DataError

from .options import JsonOption
from .terminal import explained, results, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.diagnose.diagnosis import Diagnosis


PROBLEMS = 3
"""Exit code for a run with problems."""


def diagnose(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run's folder.")],
    as_json: JsonOption = False,
) -> None:
    """Read a run's metrics, evaluations and episodes, and say what is wrong and what to try.

    Works on finished runs and on runs in progress. The rules and their thresholds are listed in
    docs/trainer/diagnosis.md. The exit code is 0 without problems (warnings may be left), 3 with some, and 1
    if the folder cannot be read.

    Examples:

        sandbox-trainer diagnose var/runs/mine

        sandbox-trainer diagnose var/runs/mine --json
    """
    from trainer.diagnose.diagnosis import diagnose_folder

    with explained():
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder; name the folder of a run, such as var/runs/NAME")
        diagnosis = diagnose_folder(folder)
    if as_json:
        write_json(diagnosis.tree())
    else:
        results().print(diagnosis_view(diagnosis))
    if diagnosis.problems:
        raise typer.Exit(PROBLEMS)


def diagnosis_view(diagnosis: Diagnosis) -> RenderableType:
    """Show the findings with what to try."""
    parts: list[Text] = []
    for name, finding in diagnosis.findings.items():
        colour = "bold red" if finding.severity == "problem" else "yellow"
        parts.append(
            Text.assemble((f"{finding.severity}: ", colour), finding.sentence, (f"  [{name}]", "dim"))
        )
        parts.extend(Text(f"  - {advice}") for advice in finding.advice)
    if not diagnosis.findings:
        parts.append(Text(f"{diagnosis.name}: nothing wrong found in {diagnosis.steps} steps"))
    if diagnosis.too_short:
        parts.append(Text(f"only {diagnosis.steps} steps: rules about a metric's course need 8", style="dim"))
    return Group(*parts)
