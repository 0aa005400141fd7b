"""Train all trials of a sweep on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.reading import read_run
from trainer.launch.gpu_selection import on_visible_gpus, usable_gpus

from .resources import trial_resources
from .trial_process import SweepPlan
from .tuning import tune_trials

if TYPE_CHECKING:
    from .grid import SweepTrial


def train_trials(
    run: Path, constants: Sequence[str], trials: Sequence[SweepTrial], root: Path, at_once: int | None
) -> dict[str, str]:
    """Train all trials and return the errors of those that failed, by name.

    Each trial reserves what the largest one needs, on the machine's GPUs where it does not set them. Raises
    TrainerError if Ray does not start, and ConfigError for more GPUs than there are.

    Args:
        run: the run file.
        constants: overrides of all trials.
        trials: all trials; those that came to their end before are not run again.
        root: folder of the trials' run folders.
        at_once: limit of trials side by side; by default as many as the machine has room for.
    """
    configs = {trial.name: read_run(run, [*constants, *trial.overrides]) for trial in trials}
    plan = SweepPlan(
        run,
        tuple(constants),
        root,
        working_folder=Path.cwd(),
        settings={name: config.model_dump_json() for name, config in configs.items()},
    )
    gpus = usable_gpus()
    placed = [on_visible_gpus(config, gpus)[0].hardware for config in configs.values()]
    return tune_trials(plan, trials, trial_resources(placed), at_once=at_once)
