"""The live tail of an episode: the events that its open page lacks, and the address to ask for later ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .player import EpisodeView, Step


@dataclass(frozen=True, slots=True)
class EpisodeTail:
    """The part of an episode that came after the events of an open page."""

    steps: tuple[Step, ...]
    """The new steps; all of them if the scale of the timing bars has changed."""
    arrived: int
    """Number of new steps."""


def tail_of(view: EpisodeView, after: int) -> EpisodeTail:
    """Return the tail of a page whose last event has the sequence ``after``."""
    known = [step for step in view.steps if step.sequence <= after]
    new = tuple(step for step in view.steps if step.sequence > after)
    rescaled = bool(known) and _longest(new) > _longest(known)
    return EpisodeTail(view.steps if rescaled else new, len(new))


def tail_url(view: EpisodeView, cursor: str | None) -> str | None:
    """Return the address of what follows this page's events; None if nothing can follow on the page.

    ``cursor`` is the page's own.
    """
    if not view.live:
        return None
    query = {} if cursor is None else {"cursor": cursor}
    if view.steps:
        query["after"] = str(view.steps[-1].sequence)
    path = f"/console/episodes/{quote(view.instance_id, safe='')}/tail"
    return f"{path}?{urlencode(query)}" if query else path


def _longest(steps: Iterable[Step]) -> float:
    return max((sum(ms for _, ms in step.timing) for step in steps), default=0.0)
