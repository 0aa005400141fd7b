"""Place workers and engines on GPUs, and check that there are enough GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.weight_sync.choice import shares_gpus

if TYPE_CHECKING:
    from trainer.config import Hardware
    from trainer.weight_sync.choice import Device

    from .machine import Machine


@dataclass(frozen=True, slots=True)
class GpuSlot:
    """The contents of one GPU."""

    machine: int
    gpu: int
    """Index of the GPU on its machine."""
    workers: tuple[int, ...] = ()
    """Ranks of the learner."""
    engines: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """Slots of one kind need the same memory."""
        return " + ".join(
            name for name, here in (("learner", self.workers), ("engine", self.engines)) if here
        )


def gpu_slots(hardware: Hardware, device: Device, machine: Machine) -> tuple[GpuSlot, ...]:
    """Return a slot for each GPU that the run wants, in order, even if there are fewer GPUs.

    A GPU holds both where the learner's and the engine's shares add up to at most one; otherwise learners
    come first and engines after them. Shares of a GPU used by several workers are counted as Ray counts
    them.
    """
    learner = hardware.learner.gpus
    engine = (
        0.0
        if device == "cpu" or not hardware.steps
        else (1.0 if hardware.engine.gpus is None else hardware.engine.gpus)
    )
    ranks = list(range(hardware.learner.most_workers)) if learner else []
    engines = (
        [index for index in range(hardware.engine.count) for _ in range(hardware.engine.tensor_parallel)]
        if engine
        else []
    )
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]]
    if shares_gpus(hardware, device):
        length = max(len(ranks), len(engines))
        pairs = [(tuple(ranks[n : n + 1]), tuple(engines[n : n + 1])) for n in range(length)]
    else:
        pairs = [(tuple(group), ()) for group in _grouped(ranks, learner)]
        pairs += [((), tuple(group)) for group in _grouped(engines, engine)]
    per = max(1, machine.gpus)
    return tuple(GpuSlot(n // per, n % per, workers, there) for n, (workers, there) in enumerate(pairs))


def _grouped(items: list[int], share: float) -> list[list[int]]:
    """Group those that fit on one GPU together."""
    together = max(1, int(1 / share)) if share else 1
    return [items[n : n + together] for n in range(0, len(items), together)]
