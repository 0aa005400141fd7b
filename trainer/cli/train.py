"""``sandbox-trainer train`` and ``sft``: train a model and show the progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trainer.config.reading import read_run
from trainer.errors import ConfigError

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


def train(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model on episodes in sandboxes: the warm start first, if configured, then RL.

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
    _run(driver_of(context), config, resume=resume, force=force, as_json=as_json)


def sft(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run only the supervised warm start: fine-tune on demonstrations that are played in sandboxes.

    The same as train with steps=0. The resulting model is in the run's folder, under model.

    Examples:

        sandbox-trainer sft deploy/runs/cpu_demo.toml name=warm

        sandbox-trainer sft RUN.toml warm_start.demonstrations=references.jsonl warm_start.steps=300
    """
    with explained():
        if read_run(run, [*(overrides or ()), "steps=1"]).warm_start is None:
            raise ConfigError(
                "the run has no warm start; set warm_start.demonstrations=FILE, with a file "
                "written by `sandbox-service envs references` or `sandbox-trainer "
                "demonstrations`"
            )
        config = read_run(run, [*(overrides or ()), "steps=0"])
    _run(driver_of(context), config, resume=resume, force=force, as_json=as_json)


def _run(driver: Driver, config: RunConfig, *, resume: bool, force: bool, as_json: bool) -> None:
    interrupted = f"interrupted; {config.folder} is at its last checkpoint: continue with --resume"
    with explained(interrupted):
        if force and resume:
            raise ConfigError("--force starts over and --resume continues: choose one of them")
        config = on_this_machine(driver, config, resume=resume)
        if force:
            driver.remove(config)
        if config.tracking.progress:
            console = notes()
            with (
                RunProgress(config, console) as progress,
                StartProgress(config.folder / "logs" / "service.log", console) as start,
            ):

                def on_metrics(step: int, metrics: dict[str, float]) -> None:
                    start.stop_printing()
                    progress(step, metrics)

                summary = driver.train(config, resume=resume, on_metrics=on_metrics, on_warning=progress.warn)
        else:
            summary = driver.train(config, resume=resume, on_metrics=None, on_warning=warn)
    if as_json:
        write_json(run_json(summary))
    else:
        results().print(run_view(summary))
