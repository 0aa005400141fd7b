"""Select episodes to learn from: quality filters, duplicates, a rule on their values, and weights.

The family of behaviour cloning is one selection: plain (rule ``all``), filtered by reward (``threshold``,
``top_share``, ``percentiles``), by trajectory ranking (``ranking``), and weighted (``softmax``, ``rank``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.config.selection import (
    AllEpisodes,
    ExactDuplicates,
    KeepDuplicates,
    NearDuplicates,
    PercentileRule,
    RankingRule,
    RankWeights,
    RecordedWeights,
    SoftmaxWeights,
    ThresholdRule,
    TopShareRule,
    UniformWeights,
)
from trainer.errors import DataError
from trainer.tool_answers import numbered

from .episode_parts import in_parts, whole
from .measures import MEASURES, by_task, measured
from .quality import reason_to_drop
from .similarity import NearDuplicateIndex, ngrams
from .value_rules import alike, at_least, best_of_each, ranked, reaches, softmax_weights

if TYPE_CHECKING:
    from trainer.config.selection import Measure, SelectionConfig

    from .types import RecordedEpisode


@dataclass(frozen=True, slots=True)
class SelectedEpisodes:
    """The selected episodes, and how many were dropped for which reason."""

    episodes: tuple[RecordedEpisode, ...]
    """In the order of the files, with their weights."""
    dropped: Mapping[str, int]
    """Number of dropped episodes by reason, in order of first appearance; one of several records is one."""


def select(episodes: Sequence[RecordedEpisode], config: SelectionConfig) -> SelectedEpisodes:
    """Return the episodes to learn from, with their weights; those of softmax and rank have the mean 1.

    An episode of several records is compared and weighed once, and all of them are kept or none.

    Raises DataError if no episode has the value to compare by, or none is left.
    """
    dropped: dict[str, int] = {}

    def drop(reason: str, count: int = 1) -> None:
        if count:
            dropped[reason] = dropped.get(reason, 0) + count

    parts = in_parts(episodes)
    wholes = [whole(each) for each in parts]
    places = []
    for place, episode in enumerate(wholes):
        reason = reason_to_drop(episode, config.quality)
        if reason is None:
            places.append(place)
        else:
            drop(reason)
    if not isinstance(config.rule, AllEpisodes) or isinstance(config.weights, SoftmaxWeights | RankWeights):
        before = len(places)
        measured([wholes[place] for place in places], config.by)
        places = [place for place in places if MEASURES[config.by](wholes[place]) is not None]
        drop(f"no {config.by}", before - len(places))
    for reason, step in (("duplicate", config.deduplicate), (f"rule {config.rule.kind}", config.rule)):
        kept = [wholes[place] for place in places]
        wanted = _STEPS[type(step)](kept, _values(kept, config.by), step)
        drop(reason, len(kept) - len(wanted))
        places = [places[each] for each in wanted]
    if not places:
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "there were none"
        raise DataError(f"the selection keeps none of {len(wholes)} episodes: {reasons}")
    kept = [wholes[place] for place in places]
    weights = _WEIGHTS[type(config.weights)](kept, _values(kept, config.by), config.weights)
    weighted = tuple(
        replace(part, weight=weight)
        for place, weight in zip(places, weights, strict=True)
        for part in parts[place]
    )
    return SelectedEpisodes(weighted, dropped)


def _values(episodes: Sequence[RecordedEpisode], by: Measure) -> list[float]:
    """Return the episodes' values; one without is worse than any other of its duplicates."""
    found = (MEASURES[by](each) for each in episodes)
    return [-math.inf if value is None else value for value in found]


_Kept = Sequence["RecordedEpisode"]
_Values = Sequence[float]
_Places = list[int]


def _all(kept: _Kept, values: _Values, rule: object) -> _Places:
    return list(range(len(kept)))


def _threshold(kept: _Kept, values: _Values, rule: ThresholdRule) -> _Places:
    return at_least(values, rule.least)


def _top_share(kept: _Kept, values: _Values, rule: TopShareRule) -> _Places:
    groups = by_task(kept).values() if rule.within == "task" else [range(len(kept))]
    return best_of_each(values, groups, lambda size: max(1, round(rule.share * size)))


def _percentiles(kept: _Kept, values: _Values, rule: PercentileRule) -> _Places:
    if not values:
        return []
    low, high = np.percentile(values, [rule.low, rule.high])
    return [place for place, value in enumerate(values) if reaches(value, low) and reaches(high, value)]


def _ranking(kept: _Kept, values: _Values, rule: RankingRule) -> _Places:
    return best_of_each(values, by_task(kept).values(), lambda _: rule.best)


def _without_exact(kept: _Kept, values: _Values, rule: object) -> _Places:
    # Model servers give every call a random id.
    texts = ((each.task, *(said.model_dump_json() for said in numbered(each.messages))) for each in kept)
    return best_of_each(values, alike(texts), lambda _: 1)


def _without_near(kept: _Kept, values: _Values, rule: NearDuplicates) -> _Places:
    unlike = []
    for group in by_task(kept).values():
        index = NearDuplicateIndex(rule.similarity)
        for place in ranked(values, group):
            if not index.find_or_add(ngrams(_said(kept[place]), rule.words)):
                unlike.append(place)
    return sorted(unlike)


def _said(episode: RecordedEpisode) -> str:
    """Return the text of an episode's turns, tool calls included."""
    parts = []
    for message in episode.turns:
        parts.append(message.content or "")
        parts += (f"{call.function.name} {call.function.arguments}" for call in message.tool_calls or ())
    return "\n".join(parts)


def _recorded(kept: _Kept, values: _Values, rule: object) -> list[float]:
    return [episode.weight for episode in kept]


def _uniform(kept: _Kept, values: _Values, rule: object) -> list[float]:
    return [1.0] * len(kept)


def _softmax(kept: _Kept, values: _Values, rule: SoftmaxWeights) -> list[float]:
    groups = by_task(kept).values() if rule.within == "task" else [range(len(kept))]
    weights = [0.0] * len(kept)
    for group in groups:
        given = softmax_weights([values[place] for place in group], rule.temperature)
        for place, weight in zip(group, given, strict=True):
            weights[place] = weight
    return weights


def _rank(kept: _Kept, values: _Values, rule: object) -> list[float]:
    weights = [0.0] * len(kept)
    for group in by_task(kept).values():
        count = len(group)
        # Equal values share the mean of their ranks, so that the order of the files does not matter.
        for place in group:
            better = sum(values[other] > values[place] for other in group)
            equal = sum(values[other] == values[place] for other in group)
            rank = better + (equal - 1) / 2
            weights[place] = (count - rank) / ((count + 1) / 2)
    return weights


_Rule = Callable[["_Kept", "_Values", Any], "_Places"]
_STEPS: Mapping[type, _Rule] = {
    AllEpisodes: _all,
    ThresholdRule: _threshold,
    TopShareRule: _top_share,
    PercentileRule: _percentiles,
    RankingRule: _ranking,
    KeepDuplicates: _all,
    ExactDuplicates: _without_exact,
    NearDuplicates: _without_near,
}
_WEIGHTS: Mapping[type, Callable[[_Kept, _Values, Any], list[float]]] = {
    RecordedWeights: _recorded,
    UniformWeights: _uniform,
    SoftmaxWeights: _softmax,
    RankWeights: _rank,
}
