"""Choose groups of a long ``trajectories.jsonl`` from all over the run, without parsing all of it.

A line is found by its offset and parsed only when it is chosen, so that a run of many gigabytes takes
seconds. Groups with failures are rare and informative: a quarter of the sample is reserved for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

if TYPE_CHECKING:
    from .figure import JsonTree


Item = TypeVar("Item")

_FAILURE = b'"failure_class"'


def chosen_groups(file: Path, episodes: int) -> tuple[list[JsonTree], int]:
    """Return groups of about that many episodes, in their order, and the total number of groups.

    Lines that a crash truncated are skipped.
    """
    if not file.exists():
        return [], 0
    with file.open("rb") as lines:
        places, failing = _scan(lines)
        first = next(_parsed(lines, places[:1]), {}).get("trajectories")
        most = max(1, episodes // max(1, len(first) if isinstance(first, list) else 1))
        reserved = spread(failing, most // 4)
        chosen = sorted({*spread(places, most - len(reserved)), *reserved})
        return list(_parsed(lines, chosen)), len(places)


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most ``most`` elements, evenly spaced, the first and the last included."""
    if len(items) <= most:
        return list(items)
    if most < 2:
        return list(items[:most])
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]


def _scan(lines: BinaryIO) -> tuple[list[int], list[int]]:
    places: list[int] = []
    failing: list[int] = []
    place = 0
    for text in lines:
        if text.strip():
            places.append(place)
            if _FAILURE in text:
                failing.append(place)
        place += len(text)
    return places, failing


def _parsed(lines: BinaryIO, places: Sequence[int]) -> Iterator[JsonTree]:
    for place in places:
        lines.seek(place)
        try:
            group = json.loads(lines.readline())
        except ValueError:
            continue
        if isinstance(group, dict):
            yield group
