"""The token view: what the policy sampled, how probable it was, by which weights, and how it was trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject

    from .run_folder import TrainingRun
    from .run_records import RunSegment
    from .update_record import SegmentRecord


MOST_TOKENS = 4000
"""Tokens of a page."""
_LEVELS = (0.9, 0.5, 0.1, 0.01)
"""Probabilities that separate the five levels of a sampled token."""

Decode = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class ShownToken:
    """One token."""

    place: int
    id: int
    text: str
    """Its text, or its id where the tokenizer is not at hand."""
    sampled: bool
    """Whether the policy sampled it, so that it is in the loss."""
    logprob: float | None
    """None for context, and where none is recorded or it is not finite."""
    level: int | None
    """0 for the most probable to 4; None without a log-probability."""
    version: int | None
    """The weight version that sampled it."""
    advantage: float | None
    """The advantage that it was trained with; None where none is recorded, or for context."""
    ratio: float | None
    """The learner's probability of it over the engine's; None where none is recorded."""
    beyond: bool
    """The ratio is outside of the run's bounds."""
    correction: str
    """``masked`` or ``truncated`` where the run corrects such a ratio."""
    entropy: float | None
    """Entropy of the learner's distribution, in nats; None where none is recorded."""
    begins: str
    """A label where a turn or another weight version begins, else empty."""


@dataclass(frozen=True, slots=True)
class ShownSegment:
    """A segment, or the part of it that is on the page."""

    number: int
    counterpart: str
    """The counterpart that sampled it; empty for the agent."""
    tokens: tuple[ShownToken, ...]
    length: int
    sampled: int
    mean_logprob: float | None
    mean_entropy: float | None
    least_ratio: float | None
    most_ratio: float | None
    untrained: str
    """The reason why the policy loss learns nothing from it; empty if it does, or none is known."""


def shown_segments(
    segments: Sequence[RunSegment],
    records: Sequence[SegmentRecord],
    start: int,
    decode: Decode | None,
) -> tuple[ShownSegment, ...]:
    """Return the tokens from ``start`` on, counted over all segments, at most a page of them.

    ``records`` has what the update recorded of each segment.
    """
    shown: list[ShownSegment] = []
    left, passed = MOST_TOKENS, 0
    for number, (segment, record) in enumerate(zip(segments, records, strict=True)):
        length = len(segment.token_ids)
        first = max(0, start - passed)
        passed += length
        if first >= length or not left:
            continue
        places = range(first, min(length, first + left))
        left -= len(places)
        marks, values = _marks(segment), _by_place(record.advantages, places)
        tokens = tuple(
            _token(segment, record, place, values.get(place), marks.get(place, ""), decode)
            for place in places
        )
        shown.append(_segment(number, segment, record, tokens))
    return tuple(shown)


def mean_of_finite(values: Sequence[float]) -> float | None:
    """Return the mean of the values that are finite; None without any."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else None


def find_decoder(run: TrainingRun) -> Decode | None:
    """Return a function from token ids to text, if the run's tokenizer and its library are installed here."""
    model = run.settings().get("model")
    for file in _tokenizers(run.path, model if isinstance(model, dict) else {}):
        try:
            decode = _decoder(str(file), file.stat().st_mtime)
        except OSError:
            continue  # missing, or in a folder that the service may not read
        if decode is not None:
            return decode
    return None


def _tokenizers(folder: Path, model: JsonObject) -> list[Path]:
    named = model.get("path")
    places = [Path(named)] if isinstance(named, str) else []
    return [place / "tokenizer.json" for place in places] + sorted(folder.glob("*/tokenizer.json"))


@lru_cache(maxsize=8)
def _decoder(file: str, changed_at: float) -> Decode | None:
    """Return the decoder of a tokenizer's file; ``changed_at`` makes a replaced file another one."""
    try:
        # Imported here: the trainer's machines have it, and a service alone shows ids without it.
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(file)
    except Exception:  # noqa: BLE001 - the library raises Exception itself for a file that it cannot read
        return None

    def decode(token: int) -> str:
        return str(tokenizer.decode([token], skip_special_tokens=False))

    return decode


def _segment(
    number: int, segment: RunSegment, record: SegmentRecord, tokens: tuple[ShownToken, ...]
) -> ShownSegment:
    sampled = [value for value, kept in zip(segment.logprobs, segment.loss_mask, strict=False) if kept]
    return ShownSegment(
        number=number,
        counterpart=segment.counterpart,
        tokens=tokens,
        length=len(segment.token_ids),
        sampled=len(sampled),
        mean_logprob=mean_of_finite(sampled),
        mean_entropy=mean_of_finite(list(record.entropies.values())),
        least_ratio=min(record.ratios.values(), default=None),
        most_ratio=max(record.ratios.values(), default=None),
        untrained=record.untrained,
    )


def _marks(segment: RunSegment) -> dict[int, str]:
    """Return labels by the token at which a turn or a weight version begins."""
    marks: dict[int, str] = {}
    for number, turn in enumerate(segment.turns):
        marks[turn.start] = f"turn {number}"
        for span in turn.versions:
            label = f"weights {span.version}"
            earlier = marks.get(span.start)
            marks[span.start] = f"{earlier}, {label}" if earlier else label
    return marks


def _by_place(trained: Sequence[tuple[float, int]], places: range) -> dict[int, float]:
    """Return the advantages of these tokens."""
    found: dict[int, float] = {}
    end = 0
    for value, length in trained:
        begin, end = end, end + length
        found |= dict.fromkeys(range(max(begin, places.start), min(end, places.stop)), value)
    return found


def _token(
    segment: RunSegment,
    record: SegmentRecord,
    place: int,
    advantage: float | None,
    begins: str,
    decode: Decode | None,
) -> ShownToken:
    token = segment.token_ids[place]
    sampled = place < len(segment.loss_mask) and segment.loss_mask[place]
    recorded = segment.logprobs[place] if sampled and place < len(segment.logprobs) else math.nan
    logprob = recorded if math.isfinite(recorded) else None
    versions = (span for turn in segment.turns for span in turn.versions if span.start <= place < span.end)
    span = next(versions, None)
    ratio = record.ratios.get(place)
    probability = None if logprob is None else math.exp(min(0.0, logprob))
    return ShownToken(
        place=place,
        id=token,
        text=decode(token) if decode is not None else str(token),
        sampled=sampled,
        logprob=logprob,
        level=None if probability is None else sum(probability < bound for bound in _LEVELS),
        version=None if span is None else span.version,
        advantage=advantage if sampled else None,
        ratio=ratio,
        beyond=ratio is not None and not record.bounds.admit(ratio),
        correction="" if ratio is None else record.bounds.correction(ratio),
        entropy=record.entropies.get(place),
        begins=begins,
    )
