"""Choose groups to replay, by signal, age and number of uses. A fold over assembled batches.

The priority of Trinity-RFT (Pan et al. 2025), newest first and less with every use, to which the deviation of
the group's rewards is added, so that groups with more signal come sooner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config import ReplayConfig


@dataclass(slots=True)
class Replayable:
    """A group that was used."""

    version: int
    """The weight version that sampled it."""
    signal: float
    uses: int = 0
    """Times that it was used again."""


class ReplayBuffer:
    """The groups that may be used again."""

    def __init__(self, config: ReplayConfig, groups: int) -> None:
        self._config = config
        self._wanted = config.replayed_of(groups)
        self._groups: dict[int, Replayable] = {}

    @property
    def held(self) -> frozenset[int]:
        """Indices of the groups that may still be used."""
        return frozenset(self._groups)

    def choose(self, step: int) -> tuple[int, ...]:
        """Return the groups for a step, as many as there are: highest priority first, then the newest."""
        young = [
            (self._priority(held, step), index)
            for index, held in self._groups.items()
            if step - held.version <= self._config.max_age
        ]
        return tuple(index for _, index in sorted(young, reverse=True)[: self._wanted])

    def assembled(self, step: int, fresh: Mapping[int, Replayable], replayed: Iterable[int]) -> None:
        """Note that a step's batch was made: its fresh groups may be used again from the next step on."""
        if not self._wanted:
            return
        for index in replayed:
            self._groups[index].uses += 1
        self._groups.update(fresh)
        self._groups = {
            index: held
            for index, held in self._groups.items()
            if step + 1 - held.version <= self._config.max_age
        }
        for index in sorted(self._groups)[: -self._config.capacity]:
            del self._groups[index]

    def _priority(self, held: Replayable, step: int) -> float:
        age = step - held.version
        return held.signal - self._config.use_decay * held.uses - self._config.age_decay * age
