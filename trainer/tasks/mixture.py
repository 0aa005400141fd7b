"""Sample tasks of several sources by their weights, in phases if there are any.

Each source has a sampler of its own. Of the groups that begin in a phase, a source gets its share to within
one group, whatever becomes of them: a source whose groups fail takes its share of the attempts and no more,
and one whose groups are dropped as flat as well. Like every sampler, this is a fold over events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainer.errors import DataError

from .curriculum import make_sampler

if TYPE_CHECKING:
    from trainer.config import TasksConfig
    from trainer.types import GroupSpec, TaskRef

    from .sampler import Sampler


class MixtureSampler:
    """Samples from several sources."""

    def __init__(
        self,
        samplers: Mapping[str, Sampler],
        weights: Sequence[Mapping[str, float]],
        phase_of: Callable[[int], int] = lambda _: 0,
    ) -> None:
        """Each phase has ``weights`` of its sources; ``phase_of`` returns the index of a step's phase."""
        self._samplers = dict(samplers)
        self._weights = [dict(each) for each in weights]
        self._phase_of = phase_of
        self._issued: list[Counter[str]] = [Counter() for _ in self._weights]

    def draw(self, index: int, step: int = 0) -> TaskRef:
        phase = self._phase_of(step)
        for name in self._by_claim(phase):
            try:
                return self._samplers[name].draw(index, step)
            except DataError:  # all tasks of this source are broken: the others go on
                continue
        raise DataError("no task is left to train on: all tasks of all sources of this phase are broken")

    def issued(self, spec: GroupSpec) -> None:
        self._issued[self._phase_of(spec.step)][spec.task.source] += 1
        self._samplers[spec.task.source].issued(spec)

    def group_ended(self, task: TaskRef, successes: Sequence[bool]) -> None:
        self._samplers[task.source].group_ended(task, successes)

    def put_back(self, task: TaskRef) -> None:
        self._samplers[task.source].put_back(task)

    def ban(self, task: TaskRef) -> None:
        self._samplers[task.source].ban(task)

    def sampling_metrics(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, sampler in self._samplers.items():
            found |= {f"source/{name}/{metric}": value for metric, value in _named(sampler)}
            found[f"source/{name}/issued"] = float(sum(counts[name] for counts in self._issued))
        return found

    def _by_claim(self, phase: int) -> list[str]:
        """Return the phase's sources, the one that is furthest behind its share first."""
        weights, issued = self._weights[phase], self._issued[phase]
        share = (issued.total() + 1) / sum(weights.values())
        return sorted(weights, key=lambda name: issued[name] - weights[name] * share)


def _named(sampler: Sampler) -> list[tuple[str, float]]:
    """Return a source's metrics without the slashes in their names."""
    return [(name.replace("/", "_"), value) for name, value in sampler.sampling_metrics().items()]


def run_sampler(tasks: Sequence[TaskRef], config: TasksConfig, seed: int) -> Sampler:
    """Return the sampler of a run. Raises DataError when a source has no tasks."""
    if not config.sources:
        return make_sampler(tasks, config.curriculum, seed)
    samplers: dict[str, Sampler] = {}
    for place, source in enumerate(config.sources):
        mine = [task for task in tasks if task.source == source.key]
        if not mine:
            raise DataError(f"the source {source.key} has no tasks to train on; check its splits")
        samplers[source.key] = make_sampler(mine, config.curriculum, seed + place)
    weights = {source.key: source.weight for source in config.sources}
    if not config.phases:
        return MixtureSampler(samplers, [weights])
    phases = [{name: weights[name] for name in phase.sources} for phase in config.phases]
    return MixtureSampler(samplers, phases, config.phase_of)
