"""``sandbox-trainer sweep``: train a run with several values of some settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from trainer.config.reading import read_run
from trainer.errors import ConfigError

from .options import JsonOption, RunArgument, driver_of
from .output_files import check_apart, check_writable
from .terminal import FAILED, explained, notes, results, warn, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.report.sweep_page import SweepRow
    from trainer.sweep.grid import SweepTrial
    from trainer.sweep.trial_results import SweepTrialResult


_COLUMNS = ("steps", "held-out success", "reward", "seconds", "state")


def sweep(
    context: typer.Context,
    run: RunArgument,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=A,B... [KEY=VALUE]...",
            help="Settings with several values, separated by commas, and overrides of all trials.",
        ),
    ],
    at_once: Annotated[
        int | None,
        typer.Option(
            "--at-once", min=1, help="Most trials side by side; default: as many as CPUs and GPUs allow."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Where to write the page; default: sweep.html beside."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a run once for each combination of values, and show how sensitive the result is to each setting.

    Ray Tune schedules the trials, one after another on a small machine. Each trial is an ordinary run in the
    folder root/NAME.sweep: report, compare and diagnose read it. The same command resumes an interrupted
    sweep: finished trials are kept, and others continue from their last checkpoint. The exit code is 1 if a
    trial failed.

    Examples:

        sandbox-trainer sweep RUN.toml learner.optimizer.learning_rate=1e-4,3e-4,1e-3

        sandbox-trainer sweep RUN.toml rollout.group_size=4,8 seed=0,1,2 steps=50 name=groups
    """
    from trainer.report.sweep_page import write_sweep
    from trainer.sweep.grid import make_trials, parse_axes
    from trainer.sweep.trial_results import read_trials

    with explained("interrupted; the same command resumes the sweep"):
        axes, constants = parse_axes(words)
        trials = make_trials(axes)
        root, measured = _checked(run, constants, trials)
        check_apart(html, (run,))
        check_writable(html)
        notes().print(f"{len(trials)} trials in {root}", markup=False, soft_wrap=True)
        failed = driver_of(context).train_trials(run, constants, trials, root, at_once)
        found = read_trials(root, trials)
        page = html if html is not None else root / "sweep.html"
        measure = "held-out success" if measured else "reward, mean of the last steps"
        write_sweep(f"Sweep {root.stem}", measure, _COLUMNS, [_row(each, measured) for each in found], page)
    for name, error in failed.items():
        warn(f"{name}: {error}")
    if as_json:
        write_json({"folder": str(root), "trials": [each.tree() for each in found], "failed": failed})
    else:
        results().print(_view(found))
        results().print(f"wrote {page}", markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(FAILED)


def _checked(run: Path, constants: Sequence[str], trials: Sequence[SweepTrial]) -> tuple[Path, bool]:
    """Read the run file with the values of every trial, so that all errors come before the first trial.

    Return the folder of the sweep, and whether the trials have held-out tasks.
    """
    from trainer.launch.folder import check_same_settings
    from trainer.sweep.trial_results import DONE, settings_of

    config = read_run(run, constants)
    root = (config.root / f"{config.name}.sweep").absolute()
    for trial in trials:
        if any(word.partition("=")[0] in ("name", "root") for word in trial.overrides):
            raise ConfigError("name and root cannot be swept: each trial has a folder of its own")
        wanted = read_run(run, [*constants, *trial.overrides, f"name={trial.name}", f"root={root}"])
        if (wanted.folder / DONE).exists():
            check_same_settings(wanted.folder, wanted, settings_of(wanted.folder))
    return root, config.has_held_out


def _row(trial: SweepTrialResult, measured: bool) -> SweepRow:
    from trainer.report.sweep_page import SweepRow

    interval = trial.interval if measured else None
    value = trial.success if measured else trial.reward
    return SweepRow(
        name=trial.name,
        values=trial.values,
        value=value if trial.done else None,  # a trial on the way would lower the mean of its values
        low=interval.low if interval is not None else None,
        high=interval.high if interval is not None else None,
        cells=_cells(trial),
    )


def _cells(trial: SweepTrialResult) -> tuple[str, ...]:
    success = "-"
    if trial.success is not None and trial.interval is not None:
        low, high = 100 * trial.interval.low, 100 * trial.interval.high
        success = f"{100 * trial.success:.1f}% ({low:.1f} to {high:.1f})"
    return (
        str(trial.steps),
        success,
        f"{trial.reward:.3f}" if trial.reward is not None else "-",
        f"{trial.seconds:.0f}",
        "done" if trial.done else "unfinished",
    )


def _view(trials: Sequence[SweepTrialResult]) -> RenderableType:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("trial", overflow="fold")
    for column in _COLUMNS:
        table.add_column(column, justify="right", overflow="fold")
    for trial in trials:
        table.add_row(trial.name, *_cells(trial))
    return table
