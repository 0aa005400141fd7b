"""Optional step rewards: named terms, each a small function, all off unless create parameters name them.

    execution_success   share of this step's executions that ended with status 0
    file_made           1 in the step in which the answer file first exists
    progress            growth of a potential: executed well, made the file, submitted (a third each)
    length              minus the message's share of 4,000 characters, at least -1

``progress`` is potential-based (Ng, Harada and Russell 1999): its sum over an episode depends on what was
reached, not on how often. No term knows the answer. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.tool_results import ToolResult


_LONG_MESSAGE = 4000


@dataclass(frozen=True, slots=True)
class Milestones:
    """Progress of an episode."""

    executed: bool = False
    """Some code ended with status 0."""
    file_made: bool = False
    """The answer file exists."""
    submitted: bool = False
    """The agent submitted."""

    def count(self) -> int:
        """Return how many were reached."""
        return self.executed + self.file_made + self.submitted


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Input of the terms."""

    results: Sequence[ToolResult]
    before: Milestones
    after: Milestones
    characters: int
    """Length of the assistant's message with its calls."""


def _execution_success(facts: StepFacts) -> float:
    executed = [result for result in facts.results if result.executed]
    return sum(result.succeeded for result in executed) / len(executed) if executed else 0.0


def _file_made(facts: StepFacts) -> float:
    return float(facts.after.file_made and not facts.before.file_made)


def _progress(facts: StepFacts) -> float:
    return (facts.after.count() - facts.before.count()) / 3


def _length(facts: StepFacts) -> float:
    return -min(1.0, facts.characters / _LONG_MESSAGE)


TERMS: Mapping[str, Callable[[StepFacts], float]] = {
    "execution_success": _execution_success,
    "file_made": _file_made,
    "progress": _progress,
    "length": _length,
}


def parse_weights(given: Any) -> dict[str, float]:  # noqa: ANN401 - what a client wrote
    """Return the weights of the terms that are on. Raises ValueError."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ValueError("shaping must be an object of term names and weights")  # noqa: TRY004 - one kind of error
    for name, weight in given.items():
        if name not in TERMS:
            raise ValueError(f"shaping has no term {name!r}; there are: {', '.join(TERMS)}")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if (
            not number or not abs(weight) <= sys.float_info.max
        ):  # neither NaN nor an integer beyond all floats
            raise ValueError(f"the weight of shaping term {name!r} must be a finite number")
    return {name: float(weight) for name, weight in given.items()}


def shaped(weights: Mapping[str, float], facts: StepFacts) -> dict[str, float]:
    """Return each term that is on, times its weight."""
    return {name: weight * TERMS[name](facts) for name, weight in weights.items()}
