"""``sandbox-trainer train``, ``sft`` and ``preferences``: train a model and show the progress."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainer.config.reading import read_run
from trainer.config.stage_selection import only_stages

from .earlier_run import choose_run, how_to_continue
from .options import ForceOption, JsonOption, OverridesArgument, RunArgument, driver_of
from .placing import on_this_machine
from .progress import RunProgress, StartProgress
from .tables import run_json, run_view
from .terminal import explained, notes, results, warn, write_json

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .driver import Driver


ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Resume the run of this name from its last checkpoint."),
]


DataOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--data", metavar="FILE", help="Recorded data in place of the stage's files; may be repeated."
    ),
]


def train(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model: the warm start first, if configured, then the run's stages, or RL without any.

    A service is started for the run unless service.url names one. With vLLM's CUDA build, a run that does
    not set GPUs uses the visible ones, and prints its choice. All output is in the run's folder, root/name:
    metrics.jsonl, trajectories.jsonl, checkpoints, the model, report.html. Ctrl-C stops the run; --resume
    continues from the last checkpoint without losing or repeating a step.

    Examples:

        sandbox-trainer train deploy/runs/cpu_demo.toml

        sandbox-trainer train deploy/runs/code_grpo.toml name=wide rollout.groups=32 seed=1

        sandbox-trainer train deploy/runs/code_grpo.toml name=wide rollout.groups=32 seed=1 --resume
    """
    with explained():
        config = read_run(run, overrides or ())
    run_training(driver_of(context), config, run, resume=resume, force=force, as_json=as_json)


def sft(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    data: DataOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run only supervised fine-tuning: the warm start on demonstrations, and stages of kind sft.

    Demonstrations (warm_start.demonstrations) are played in sandboxes first. Recorded episodes are read from
    the stage's files, or from those that --data names. The resulting model is in the run's folder, under
    model.

    Examples:

        sandbox-trainer sft deploy/runs/cpu_demo.toml name=warm

        sandbox-trainer sft RUN.toml warm_start.demonstrations=references.jsonl warm_start.steps=300

        sandbox-trainer sft RUN.toml --data episodes.jsonl
    """
    with explained():
        config = only_stages(read_run(run, overrides or ()), "sft", data or ())
    run_training(driver_of(context), config, run, resume=resume, force=force, as_json=as_json)


def preferences(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    data: DataOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run only the stages of kind preferences: DPO, IPO, KTO or ORPO on recorded preferences.

    The loss and its settings are those of the stage. Its data are pairs of completions, or completions that
    are labelled for KTO, in the stage's files or in those that --data names. The resulting model is in the
    run's folder, under model.

    Examples:

        sandbox-trainer preferences RUN.toml

        sandbox-trainer preferences RUN.toml --data pairs.jsonl name=dpo
    """
    with explained():
        config = only_stages(read_run(run, overrides or ()), "preferences", data or ())
    run_training(driver_of(context), config, run, resume=resume, force=force, as_json=as_json)


def run_training(
    driver: Driver, config: RunConfig, run: Path, *, resume: bool, force: bool, as_json: bool
) -> None:
    """Train what a run file asks for, and show progress and results."""
    afterwards = how_to_continue(force=force)
    with explained(
        f"interrupted; {config.folder} is at its last checkpoint: {afterwards}", afterwards=afterwards
    ):
        choose_run(driver, config, run, resume=resume, force=force)
        config = driver.with_counted_steps(on_this_machine(driver, config, resume=resume), resume=resume)
        driver.check_name(config, resume=resume, replace=force)
        train = partial(driver.train, config, resume=resume, replace=force)
        if config.tracking.progress:
            console = notes()
            with (
                RunProgress(config, console) as progress,
                StartProgress(
                    config.folder / "logs" / "service.log", console, service=config.service.url
                ) as start,
            ):

                def on_metrics(step: int, metrics: dict[str, float]) -> None:
                    start.stop_printing()
                    progress(step, metrics)

                result = train(on_metrics=on_metrics, on_warning=progress.warn)
        else:
            result = train(on_metrics=None, on_warning=warn)
    if as_json:
        write_json(run_json(result))
    else:
        results().print(run_view(result))
