"""The update's record of a segment: advantages, ratios and entropies of its tokens, or the reason for none.

A ratio is the learner's probability of a token before the update over the engine's, by which a run corrects
its losses (``algorithm.mismatch``). Records of runs without ratios or entropies are shown without them.
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject

    from .run_records import RunAdvantages, RunEpisode, RunSegment


_OVERLONG = frozenset({"horizon", "context_full", "turn_cut", "time_limit"})
"""Stop reasons that ``algorithm.overlong = "mask"`` excludes."""
_CAP, _FLOOR = 2.0, 0.5
"""The trainer's defaults."""
_LARGEST_EXPONENT = 80.0


@dataclass(frozen=True, slots=True)
class RatioBounds:
    """A run's correction for different probabilities in learner and engine (``algorithm.mismatch``)."""

    mode: str = ""
    """``off``, ``truncate`` or ``mask``; empty where the run's settings do not say."""
    level: str = "token"
    cap: float = _CAP
    floor: float = _FLOOR

    @classmethod
    def of(cls, settings: JsonObject) -> RatioBounds:
        """Return the bounds among a run's settings."""
        given = _branch(_branch(settings, "algorithm"), "mismatch")
        cap, floor = given.get("cap"), given.get("floor")
        return cls(
            mode=str(given.get("mode", "")),
            level=str(given.get("level", "token")),
            cap=float(cap) if isinstance(cap, int | float) else _CAP,
            floor=float(floor) if isinstance(floor, int | float) else _FLOOR,
        )

    def admit(self, ratio: float) -> bool:
        """Return whether a ratio is within the bounds."""
        return self.floor <= ratio <= self.cap

    def correction(self, ratio: float) -> str:
        """Return what became of a token with this ratio: ``masked``, ``truncated``, or nothing."""
        if self.level != "token" or self.admit(ratio):
            return ""
        if self.mode == "mask":
            return "masked"
        return "truncated" if self.mode == "truncate" and ratio > self.cap else ""


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """The record of a segment's update, by the places of its tokens."""

    advantages: Sequence[tuple[float, int]] = ()
    """Values, and for how many tokens each holds; empty if none are recorded."""
    ratios: Mapping[int, float] = field(default_factory=dict)
    entropies: Mapping[int, float] = field(default_factory=dict)
    bounds: RatioBounds = RatioBounds()
    untrained: str = ""
    """The reason why the policy loss learns nothing from it, as far as it is known."""


def segment_records(
    episode: RunEpisode, recorded: RunAdvantages | None, settings: JsonObject
) -> tuple[SegmentRecord, ...]:
    """Return the records of an episode's segments; ``recorded`` are those of its group, if there are any."""
    bounds = RatioBounds.of(settings)
    algorithm = _branch(settings, "algorithm")
    masks_overlong = algorithm.get("overlong") == "mask"
    others = _learns_without_advantages(algorithm)
    records = []
    for place, segment in enumerate(episode.segments):
        name = f"{episode.id}#{place}" if place else episode.id
        places = [number for number, sampled in enumerate(segment.loss_mask) if sampled and number]
        reason = _episode_reason(episode, segment, masks_overlong=masks_overlong)
        if recorded is None:
            records.append(SegmentRecord(bounds=bounds, untrained=reason))
            continue
        advantages = recorded.advantages.get(name, ())
        gaps = _by_place(recorded.log_ratios.get(name, ""), places)
        records.append(
            SegmentRecord(
                advantages=advantages,
                ratios={number: _exponential(gap) for number, gap in gaps.items()},
                entropies=_by_place(recorded.entropies.get(name, ""), places),
                bounds=bounds,
                untrained=reason or ("" if others else _record_reason(advantages, gaps, bounds)),
            )
        )
    return tuple(records)


def _episode_reason(episode: RunEpisode, segment: RunSegment, *, masks_overlong: bool) -> str:
    """Return why an episode or a segment has no part in any update; empty if it may have one."""
    if not any(segment.loss_mask[1:]):
        return "the policy sampled none of its tokens"
    if episode.failure is not None:
        failure = f"{episode.failure.failure_class}: {episode.failure.code}"
        return f"the episode failed ({failure}), which says nothing about the policy"
    if masks_overlong and episode.stop in _OVERLONG:
        return f"a limit cut the episode off ({episode.stop}), and algorithm.overlong masks such episodes"
    return "the episode has weight 0 in the loss" if episode.weight == 0 else ""


def _learns_without_advantages(algorithm: JsonObject) -> bool:
    """Return whether a token is learned from without an advantage: by a teacher, a KL or the entropy."""
    distillation, kl = _branch(algorithm, "distillation"), _branch(algorithm, "kl")
    return bool(distillation or kl.get("place") == "loss" or algorithm.get("entropy"))


def _record_reason(
    advantages: Sequence[tuple[float, int]], gaps: Mapping[int, float], bounds: RatioBounds
) -> str:
    """Return why nothing is learned from a segment that had a part in an update; empty if something is."""
    if advantages and not any(value for value, _ in advantages):
        return "all its advantages are 0: its reward is that of its baseline"
    if gaps and bounds.level == "sequence" and bounds.mode == "mask":
        product = _exponential(sum(gaps.values()))
        if not bounds.admit(product):
            return (
                f"the product of its ratios, {product:.4g}, is outside of "
                f"{bounds.floor:g} to {bounds.cap:g} (algorithm.mismatch)"
            )
    return ""


def _exponential(value: float) -> float:
    return math.exp(min(value, _LARGEST_EXPONENT))


def _by_place(encoded: str, places: Sequence[int]) -> dict[int, float]:
    """Return 16-bit floats by the places of the tokens that they belong to; none if they do not fit."""
    try:
        raw = b64decode(encoded, validate=True)
        values = struct.unpack(f"<{len(places)}e", raw)
    except (ValueError, struct.error):
        return {}
    return {place: value for place, value in zip(places, values, strict=True) if math.isfinite(value)}


def _branch(settings: JsonObject, name: str) -> JsonObject:
    branch = settings.get(name)
    return branch if isinstance(branch, dict) else {}
