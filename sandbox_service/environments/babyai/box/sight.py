"""The agent's view from its own place: things by name and distance, and cells that can be walked on.

Places are (right, ahead): cells to the right of the agent, negative to its left, and cells ahead of it. Only
what minigrid shows the agent is known here, so no word of the world's can reveal more.
"""

from __future__ import annotations

from dataclasses import dataclass

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object, numbered among those that look the same, the nearest first."""

    name: str
    """Such as ``red ball 1`` or ``grey closed door 2``."""
    kind: str
    color: str
    state: str
    """Of a door: open, closed or locked. Empty for other things."""
    place: Place


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is seen at once."""

    things: tuple[Thing, ...]
    """From near to far."""
    floor: frozenset[Place]
    """Cells that can be entered: empty ones and open doors."""
    front: str
    """The kind of object in the cell ahead, or ``empty``."""
    barrier: tuple[str, int] | None
    """The first wall or box straight ahead, and how many steps away."""

    def ahead(self) -> Thing | None:
        """Return the thing in the cell ahead."""
        return next((thing for thing in self.things if thing.place == (0, 1)), None)
