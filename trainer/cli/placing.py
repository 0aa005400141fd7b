"""Place a run that leaves its GPUs open on those of a machine, before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.launch.gpu_selection import leaves_gpus_open, on_visible_gpus

from .terminal import notes

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .driver import Driver


def on_this_machine(driver: Driver, config: RunConfig, *, resume: bool = False) -> RunConfig:
    """Return the run on this machine's GPUs, if there are any and the run does not set GPUs; print the
    choice.
    """
    if not leaves_gpus_open(config):
        return config
    return _announced(*on_visible_gpus(config, driver.usable_gpus(), resume=resume))


def on_described_machine(config: RunConfig, gpus: int) -> RunConfig:
    """Return the run as it would be placed on a machine with so many GPUs; print the choice."""
    return _announced(*on_visible_gpus(config, gpus, described=True)) if gpus else config


def _announced(placed: RunConfig, sentence: str | None) -> RunConfig:
    if sentence is not None:
        notes().print(sentence, markup=False, soft_wrap=True)
    return placed
