"""``sandbox-trainer train`` and ``sft``: run a run, with its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainer.config.reading import read_run
from trainer.errors import ConfigError

from .beginning import Beginning
from .options import ForceOption, JsonOption, RunArgument, WordsArgument, driver_of
from .placing import on_this_machine
from .progress import RunProgress
from .tables import run_json, run_view
from .terminal import explained, notes, results, warn, write_json

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .driver import Driver

__all__ = ["sft", "train"]

ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the run of this name where its last checkpoint is."),
]


def train(
    context: typer.Context,
    run: RunArgument,
    words: WordsArgument = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model on episodes in sandboxes: the warm start first, where there is one, then RL.

    A service is started for the run unless service.url names one. With vLLM's CUDA build, a run that says
    nothing of GPUs takes those that are visible, and says so. Everything that the run leaves behind is
    in its folder, root/name: metrics.jsonl, trajectories.jsonl, checkpoints, the model, report.html.
    Ctrl-C ends it at once; --resume goes on from the last checkpoint, and loses and repeats nothing.

    Examples:

        sandbox-trainer train deploy/runs/cpu_demo.toml

        sandbox-trainer train deploy/runs/code_grpo.toml name=wide rollout.groups=32 seed=1

        sandbox-trainer train deploy/runs/code_grpo.toml name=wide rollout.groups=32 seed=1 --resume
    """
    with explained():
        config = read_run(run, words or ())
    _run(driver_of(context), config, resume=resume, force=force, as_json=as_json)


def sft(
    context: typer.Context,
    run: RunArgument,
    words: WordsArgument = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Only the supervised warm start of a run: learn from demonstrations that are played in sandboxes.

    The same as train with steps=0. The model that comes out is in the run's folder, under model.

    Examples:

        sandbox-trainer sft deploy/runs/cpu_demo.toml name=warm

        sandbox-trainer sft RUN.toml warm_start.demonstrations=references.jsonl warm_start.steps=300
    """
    with explained():
        if read_run(run, [*(words or ()), "steps=1"]).warm_start is None:
            raise ConfigError(
                "the run has no warm start; say warm_start.demonstrations=FILE, as "
                "`sandbox-service envs references` or `sandbox-trainer demonstrations` write it"
            )
        config = read_run(run, [*(words or ()), "steps=0"])
    _run(driver_of(context), config, resume=resume, force=force, as_json=as_json)


def _run(driver: Driver, config: RunConfig, *, resume: bool, force: bool, as_json: bool) -> None:
    interrupted = f"interrupted; {config.folder} is as it was at the last checkpoint: go on with --resume"
    with explained(interrupted):
        if force and resume:
            raise ConfigError("--force begins anew and --resume goes on: choose one of them")
        config = on_this_machine(driver, config, resume=resume)
        if force:
            driver.remove(config)
        if config.tracking.progress:
            console = notes()
            with (
                RunProgress(config, console) as progress,
                Beginning(config.folder / "logs" / "service.log", console) as beginning,
            ):

                def on_metrics(step: int, metrics: dict[str, float]) -> None:
                    beginning.end()
                    progress(step, metrics)

                summary = driver.train(config, resume=resume, on_metrics=on_metrics, on_warning=progress.warn)
        else:
            summary = driver.train(config, resume=resume, on_metrics=None, on_warning=warn)
    if as_json:
        write_json(run_json(summary))
    else:
        results().print(run_view(summary))
