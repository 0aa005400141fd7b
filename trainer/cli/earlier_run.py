"""Choose between an earlier run of the same name and a new one, before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import ConfigError
from trainer.launch.inputs import is_within

from .terminal import warn

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .driver import Driver


def choose_run(driver: Driver, config: RunConfig, run: Path, *, resume: bool, force: bool) -> None:
    """Check --resume and --force, and put back an earlier run that a killed --force set aside.

    Raises ConfigError, also for a run file in the folder that --force deletes, and for --resume where the run
    that was put back is not the one that was killed.
    """
    if force and resume:
        raise ConfigError("--force starts over and --resume continues: choose one of them")
    if (sentence := driver.recover(config)) is not None:
        if resume:
            raise ConfigError(
                f"{sentence}; start the new one with --force, or repeat --resume to continue the earlier one"
            )
        warn(sentence)
    if force and is_within(run, config.folder):
        raise ConfigError(
            f"{run} would be deleted with the earlier run in {config.folder}: move it, or choose another "
            "name=..."
        )


def how_to_continue(*, force: bool) -> str:
    """Return what continues a run that was interrupted: with --force, the earlier one may be back."""
    if force:
        return "continue the new run with --resume if it had begun, and start it again with --force otherwise"
    return "continue with --resume"
