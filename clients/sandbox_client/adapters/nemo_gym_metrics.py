"""The statistics with which NeMo Gym sums up a collection of rollouts, under its names.

Source: ``nemo_gym.reward_profile.compute_aggregate_metrics`` of NeMo Gym 0.4, without its histograms, samples
and lists of rollouts.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, JsonValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TASK = "_ng_task_index"
_ROLLOUT = "_ng_rollout_index"
_HEADLINES = ("mean/reward", "mean/success")
# Larger numbers have no statistics: JSON's integers may be beyond floats, and so are sums of large floats.
_LARGEST = 1e300

Graded: TypeAlias = "dict[str, JsonValue]"
"""The answer of ``verify`` for one rollout, with its place in the collection."""


class AggregateMetricsRequest(BaseModel):
    """All graded rollouts of a collection."""

    verify_responses: list[dict[str, JsonValue]]


def aggregate(rollouts: Sequence[Graded]) -> dict[str, object]:
    """Return the statistics of all numbers of the rollouts: of each task, of all, and the headlines."""
    tasks: dict[int, list[Graded]] = {}
    for rollout in rollouts:
        index = rollout.get(_TASK)
        tasks.setdefault(index if isinstance(index, int) else 0, []).append(rollout)
    overall = _described(rollouts)
    return {
        "group_level_metrics": [
            {_TASK: index, "num_rollouts": len(tasks[index]), **_described(tasks[index])}
            for index in sorted(tasks)
        ],
        "agent_metrics": overall,
        "key_metrics": {name: overall[name] for name in _HEADLINES if name in overall},
    }


def _described(rollouts: Sequence[Graded]) -> dict[str, float]:
    columns: dict[str, list[float]] = {}
    for rollout in rollouts:
        for name, value in _numbers(rollout).items():
            columns.setdefault(name, []).append(value)
    described: dict[str, float] = {}
    for name, values in columns.items():
        described[f"mean/{name}"] = statistics.fmean(values)
        described[f"max/{name}"] = max(values)
        described[f"min/{name}"] = min(values)
        described[f"median/{name}"] = statistics.median(values)
        if len(values) > 1:
            described[f"std/{name}"] = statistics.stdev(values)
        elif len(rollouts) == 1:
            described[f"std/{name}"] = 0.0
    return described


def _numbers(rollout: Graded) -> Mapping[str, float]:
    """Return the numbers of a rollout and of its response's usage, without its place."""
    response = rollout.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    fields = rollout | (usage if isinstance(usage, dict) else {})
    return {
        name: float(value)
        for name, value in fields.items()
        if name not in (_TASK, _ROLLOUT) and isinstance(value, int | float) and abs(value) <= _LARGEST
    }
