"""Which workers and engines sit on which GPU, and whether there are enough GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.weight_sync.choice import shares_gpus

if TYPE_CHECKING:
    from trainer.config import RunConfig
    from trainer.weight_sync.choice import Device

    from .machine import Machine

__all__ = ["Seat", "seats_of"]


@dataclass(frozen=True, slots=True)
class Seat:
    """Everything that is on one GPU."""

    machine: int
    gpu: int
    """Of the machine."""
    workers: tuple[int, ...] = ()
    """Ranks of the learner."""
    engines: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """Seats of one kind need the same memory."""
        return " + ".join(
            name for name, here in (("learner", self.workers), ("engine", self.engines)) if here
        )


def seats_of(config: RunConfig, device: Device, machine: Machine) -> tuple[Seat, ...]:
    """A seat for each GPU that the run wants, in order; more than there are, if it wants more.

    A GPU holds both where the learner's and the engine's shares add up to one at most; else learners come
    first and engines after them. Shares of GPUs that several workers use are counted as Ray counts them.
    """
    learner = config.learner.gpus
    engine = (
        0.0
        if device == "cpu" or not config.steps
        else (1.0 if config.engine.gpus is None else config.engine.gpus)
    )
    ranks = list(range(config.learner.most_workers)) if learner else []
    engines = (
        [index for index in range(config.engine.count) for _ in range(config.engine.tensor_parallel)]
        if engine
        else []
    )
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]
    if shares_gpus(config, device):
        length = max(len(ranks), len(engines))
        pairs = [(tuple(ranks[n : n + 1]), tuple(engines[n : n + 1])) for n in range(length)]
    else:
        pairs = [(tuple(group), ()) for group in _grouped(ranks, learner)]
        pairs += [((), tuple(group)) for group in _grouped(engines, engine)]
    per = max(1, machine.gpus)
    return tuple(Seat(n // per, n % per, workers, there) for n, (workers, there) in enumerate(pairs))


def _grouped(items: list[int], share: float) -> list[list[int]]:
    """Those that fit on one GPU together."""
    together = max(1, int(1 / share)) if share else 1
    return [items[n : n + together] for n in range(0, len(items), together)]
