"""Results of an iteration's phases, each a file of JSON in the iteration's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BaseModel:
    """The models that an evolution begins with."""

    untrained: str
    """Folder of the run file's model, before the warm start."""
    model: str
    """Folder of the model after the warm start; the same folder without one."""
    demonstrations: str | None = None
    """File of the demonstrations that the warm start played; None without one."""


@dataclass(frozen=True, slots=True)
class Explored:
    """Summary of an exploration."""

    file: str
    """The groups of episodes, one line of JSON for each."""
    episodes: int
    """Episodes with a score."""
    solved: int
    failures: int
    """Episodes without a score."""
    by_temperature: Mapping[str, float] = field(default_factory=dict)
    """Success rate at each temperature, where there are several."""
    reflected: int = 0
    """Episodes that were played once more after a reflection."""
    mended: int = 0
    """Those of them that were solved then."""
    unreflected: Mapping[str, int] = field(default_factory=dict)
    """Failed episodes that were not played once more, by the reason."""

    @property
    def success_rate(self) -> float | None:
        """Share of solved episodes among those with a score; None without any."""
        return self.solved / self.episodes if self.episodes else None


@dataclass(frozen=True, slots=True)
class Selected:
    """Summary of the data of an iteration."""

    selected: int
    """Explored episodes that were selected."""
    tasks: int
    """Tasks that they are of."""
    left_out: Mapping[str, int]
    """Explored episodes that each rule of the selection left out."""
    demonstrations: int = 0
    earlier: int = 0
    """Episodes selected in earlier iterations."""

    @property
    def total(self) -> int:
        """Number of episodes to train on."""
        return self.selected + self.demonstrations + self.earlier


@dataclass(frozen=True, slots=True)
class Trained:
    """The model of an iteration."""

    model: str
    """Its folder."""
    start: str
    """Folder of the model that the training began with."""
    steps: int
    """Updates."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the model of an iteration is kept."""

    kept: bool
    reason: str
    """A sentence for readers."""
    tasks: int = 0
    """Held-out tasks that were compared."""
    difference: float | None = None
    """Held-out success minus that of the model kept before; None where no model was trained."""
    low: float | None = None
    """Bounds of the 95% interval of the difference."""
    high: float | None = None
