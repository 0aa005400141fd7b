"""Token sequences on which engines and learner are compared.

They are sampled text, taken from the last batch or, before there is one, sampled by an engine. Random token
ids would not do: their log-probabilities are near -10, where rounding to 16 bits causes several times the
difference that it causes in sampled text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.types import Batch, Sample


BUDGET = 1024
"""Tokens of all probes together, context included; engines score them at each weight sync."""
LEAST = 64
"""If fewer sampled tokens than this fit, as after a long prompt, tokens of the context are compared too."""
DRAWN_SEQUENCES = 8
DRAWN_TOKENS = 48
"""Tokens of each sequence that an engine samples."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A sequence to score."""

    token_ids: tuple[int, ...]
    compared: tuple[bool, ...]
    """One entry a token: whether its log-probability is compared; False for the first."""


def probes_of_batch(batch: Batch) -> tuple[Probe, ...]:
    """Return beginnings of some of a batch's samples, at most ``BUDGET`` tokens; deterministic.

    One sample of each group is taken before a second one of any group, so that the texts differ.
    """
    chosen: list[tuple[Sample, int]] = []
    left = BUDGET
    for sample in _groups_in_turn(batch.samples):
        # An engine samples a token after those that it scores, so they must not fill its context.
        length = min(len(sample) - 1, left)
        if length < 2 or not sample.mask_T.any():
            continue
        chosen.append((sample, length))
        left -= length
    enough = sum(int(sample.mask_T[1:length].sum()) for sample, length in chosen) >= LEAST
    return tuple(_probe(sample, length, sampled_only=enough) for sample, length in chosen)


def probes_of_draws(draws: Sequence[tuple[int, ...]]) -> tuple[Probe, ...]:
    """Return probes of sequences of which an engine sampled all tokens but the first."""
    return tuple(Probe(draw, (False,) + (True,) * (len(draw) - 1)) for draw in draws if len(draw) > 1)


def _groups_in_turn(samples: Sequence[Sample]) -> list[Sample]:
    seen: dict[int, int] = {}
    turns: list[tuple[int, int]] = []
    for index, sample in enumerate(samples):
        turns.append((seen.get(sample.group, 0), index))
        seen[sample.group] = seen.get(sample.group, 0) + 1
    return [samples[index] for _, index in sorted(turns)]


def _probe(sample: Sample, length: int, *, sampled_only: bool) -> Probe:
    token_ids = tuple(int(token) for token in sample.token_ids_T[:length])
    compared = tuple(bool(flag) for flag in sample.mask_T[:length]) if sampled_only else (True,) * length
    return Probe(token_ids, (False, *compared[1:]))
