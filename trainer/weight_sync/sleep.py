"""Who has a shared GPU's memory: the learner while it updates, the engines while they sample.

Engines sleep (``engine.sleep``) before the learner's passes, and wake for a weight sync: their weights come
back before they take the learner's, and the cache after that, when the learner's copies are gone. Without the
setting nothing happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from .ranks import from_rank_zero

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings

    from .engines import Engines


class Sleep:
    """Of one run, on one rank. Every rank calls everything; rank 0 has the engines."""

    def __init__(self, settings: SyncSettings) -> None:
        self._on = settings.engine.sleep
        self._mode = settings.in_flight

    def begin(self, engines: Engines) -> None:
        """No rank goes on before all engines have left the memory to it."""
        if self._on:
            engines.each("sleep", lambda handle: handle.enter_sleep(self._mode))
            from_rank_zero(None)

    def wake_weights(self, engines: Engines) -> None:
        """No engine takes memory before all ranks have given up what they do not use."""
        if self._on:
            _give_back()
            engines.each("take its memory back", lambda handle: handle.wake_up("weights"))

    def wake_cache(self, engines: Engines) -> None:
        """They sample again."""
        if self._on:
            _give_back()
            engines.each("take its memory back", lambda handle: handle.wake_up("kv_cache"))


def _give_back() -> None:
    """Torch keeps what it has freed; other processes see it after this only."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
