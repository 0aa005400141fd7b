"""Reads minigrid's picture of the cells before the agent into what it sees."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX

from .sight import Place, Sight, Thing

if TYPE_CHECKING:
    from numpy import ndarray


_DOOR_STATES = {number: name for name, number in STATE_TO_IDX.items()}
_NAMED = frozenset({"door", "key", "ball", "box"})
_FREE = frozenset({"empty", "floor"})


def see(image: ndarray) -> Sight:
    """Read minigrid's picture of the cells before the agent, which stands in the middle of its last row."""
    cells = {place: (kind, color, state) for place, kind, color, state in _cells(image)}
    near = sorted(cells, key=lambda place: abs(place[0]) + place[1])
    numbers: Counter[str] = Counter()
    things: list[Thing] = []
    for place in near:
        kind, color, state = cells[place]
        if kind in _NAMED:
            state = state if kind == "door" else ""
            words = " ".join(filter(None, (color, state, kind)))
            numbers[words] += 1
            things.append(Thing(f"{words} {numbers[words]}", kind, color, state, place))
    floor = frozenset(
        place
        for place, (kind, _, state) in cells.items()
        if kind in _FREE or (kind, state) == ("door", "open")
    )
    line = sorted(ahead for right, ahead in cells if right == 0 and cells[right, ahead][0] in ("wall", "box"))
    barrier = (cells[0, line[0]][0], line[0]) if line else None
    return Sight(tuple(things), floor | {(0, 0)}, cells.get((0, 1), ("wall", "", ""))[0], barrier)


def _cells(image: ndarray) -> list[tuple[Place, str, str, str]]:
    """Place, kind, colour and state of each cell that is seen, from the far left on; not the agent's own."""
    found: list[tuple[Place, str, str, str]] = []
    width, depth = image.shape[:2]
    columns = image.tolist()
    for row in range(depth):
        for column in range(width):
            place = (column - width // 2, depth - 1 - row)
            kind, color, state = columns[column][row]
            if place != (0, 0) and IDX_TO_OBJECT[kind] != "unseen":
                found.append((place, IDX_TO_OBJECT[kind], IDX_TO_COLOR[color], _DOOR_STATES[state]))
    return found
