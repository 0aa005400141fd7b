"""``sandbox-trainer evaluate``: measure how often a model solves held-out tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainer.config.reading import read_run
from trainer.errors import ConfigError

from .options import JsonOption, OverridesArgument, RunArgument, driver_of
from .placing import on_this_machine
from .tables import evaluation_view
from .terminal import FAILED, explained, notes, results, write_json


def evaluate(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "-m",
            metavar="FOLDER",
            help="A model in Hugging Face's format; default: the run's exported model, or else "
            "its initial one.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write all results to this file, as JSON."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play held-out tasks with a model, and print success by difficulty with 95% intervals.

    The tasks are those of evaluation.splits. An episode that failed for reasons outside the policy has no
    score and does not count as unsolved. The exit code is 1 when no episode has a score.

    Examples:

        sandbox-trainer evaluate deploy/runs/cpu_demo.toml

        sandbox-trainer evaluate RUN.toml evaluation.episodes=4 evaluation.temperature=0.6

        sandbox-trainer evaluate RUN.toml --model Qwen3-0.6B -o before.json
    """
    with explained():
        config = read_run(run, overrides or ())
        if not config.evaluation.splits:
            raise ConfigError(
                'no tasks to evaluate on; set evaluation.splits, for example evaluation.splits=["test"]'
            )
        exported = config.folder / "model"
        chosen = model if model is not None else exported if exported.exists() else None
        if chosen is not None and not chosen.is_dir():
            raise ConfigError(f"--model {chosen} is not a folder")
        config = on_this_machine(driver_of(context), config)
        notes().print(f"evaluating {chosen or 'the initial model'} ...", markup=False)
        result = driver_of(context).evaluate(config, chosen)
        if output is not None:
            output.write_text(result.to_json() + "\n", encoding="utf-8")
    if as_json:
        write_json(json.loads(result.to_json()) | {"success_rate": result.success_rate})
    else:
        results().print(evaluation_view(result))
    if not result.episodes:
        raise typer.Exit(FAILED)
