"""Place a run on this machine's GPUs before anything is started."""

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
    placed, sentence = on_visible_gpus(config, driver.usable_gpus(), resume=resume)
    if sentence is not None:
        notes().print(sentence, markup=False, soft_wrap=True)
    return placed
