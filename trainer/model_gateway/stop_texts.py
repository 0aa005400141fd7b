"""End an answer at the first of an agent's stop texts.

Engines sample until a stop token. Tokens behind the one that completes a stop text are dropped, which leaves
the log-probabilities of those before it as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainer.engines.generation import Finish, Generation

if TYPE_CHECKING:
    from trainer.types import VersionSpan


@dataclass(frozen=True, slots=True)
class Cut:
    """A generation up to its first stop text."""

    generation: Generation
    text: str
    """Before the stop text."""
    stop: str | None
    """The stop text, if it has one."""


def cut_at(generation: Generation, stops: Sequence[str], said: Callable[[Sequence[int]], str]) -> Cut:
    """Drop the tokens of a generation behind its first stop text. Without one, it stays as it is.

    Args:
        generation: what was sampled.
        stops: the texts; none is empty.
        said: the text of tokens.
    """
    token_ids = generation.token_ids
    text = said(token_ids)
    places = {stop: place for stop in stops if (place := text.find(stop)) >= 0}
    if not places:
        return Cut(generation, text, None)
    kept, most = 1, len(token_ids)
    while kept < most:
        middle = (kept + most) // 2
        if any(stop in said(token_ids[:middle]) for stop in stops):
            most = middle
        else:
            kept = middle + 1
    first = min(places, key=lambda stop: places[stop])
    return Cut(shortened(generation, kept), text[: places[first]], first)


def shortened(generation: Generation, kept: int) -> Generation:
    """Return the first tokens of a generation."""
    return replace(
        generation,
        token_ids=generation.token_ids[:kept],
        logprobs=generation.logprobs[:kept],
        finish=Finish.STOP,
        versions=_spans(generation.versions, kept),
    )


def _spans(versions: Sequence[VersionSpan], end: int) -> tuple[VersionSpan, ...]:
    return tuple(replace(span, end=min(span.end, end)) for span in versions if span.start < end)
