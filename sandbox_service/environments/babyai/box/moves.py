"""The moves that are possible from where the agent stands, each by its name and its engine actions.

A move that cannot be made has a sentence that says why, for the agent that tries it all the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sight import Place, Sight, Thing


CHECK = "check available actions"
_LEFT, _RIGHT, _FORWARD, _PICK_UP, _DROP, _TOGGLE = range(6)
"""The engine's actions by number."""
_STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""One step by heading; 0 is ahead of where the agent faces now, then clockwise."""

Carried = tuple[str, str]
"""Kind and colour of what the agent carries."""
_Stance = tuple["Place", int]


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves by name, in the order in which they are listed."""

    possible: dict[str, tuple[int, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def moves(sight: Sight, carried: Carried | None) -> Moves:
    """Return all moves, by what is seen and carried."""
    found = Moves({"turn left": (_LEFT,), "turn right": (_RIGHT,)})
    if (0, 1) in sight.floor:
        found.possible["move forward"] = (_FORWARD,)
    else:
        found.refused["move forward"] = "There is a barrier in front of you, you cannot move forward."
    walks = _Walks(sight.floor)
    _add_hands(found, walks, sight, carried)
    _add_doors(found, walks, sight, carried)
    for thing in sight.things:
        _offer(found, f"go to {thing.name}", walks.to_face(thing.place), ())
    found.possible[CHECK] = ()
    return found


def _add_hands(found: Moves, walks: _Walks, sight: Sight, carried: Carried | None) -> None:
    """Picking up and dropping."""
    ahead = sight.ahead()
    for thing in sight.things:
        if thing.kind == "door":
            continue
        if carried is None:
            _offer(found, f"pick up {thing.name}", walks.to_face(thing.place), (_PICK_UP,))
        else:
            found.refused[f"pick up {thing.name}"] = f"You already carry a {carried[1]} {carried[0]}."
    if ahead is not None and ahead.kind != "door" and carried is None:
        found.possible["pick up"] = (_PICK_UP,)
    else:
        found.refused["pick up"] = (
            "You already carry something." if carried else "Nothing to pick up is there."
        )
    if carried is None:
        found.refused["drop"] = "You cannot drop anything, as you are not carrying anything."
    elif sight.front == "empty":
        found.possible["drop"] = (_DROP,)
    else:
        found.refused["drop"] = "You cannot drop the object, as the cell in front of you is not empty."


def _add_doors(found: Moves, walks: _Walks, sight: Sight, carried: Carried | None) -> None:
    """Toggling doors and boxes, and going through doors."""
    ahead = sight.ahead()
    for thing in sight.things:
        if thing.kind != "door":
            continue
        through, toggle = f"go through {thing.name}", f"toggle and go through {thing.name}"
        if thing.state == "open":
            _offer(found, through, walks.to_enter(thing.place), ())
            continue
        found.refused[through] = f"You cannot {through}, as it is {thing.state}. You should toggle it first."
        problem = _lock(thing, carried)
        if problem is None:
            _offer(found, toggle, walks.to_face(thing.place), (_TOGGLE, _FORWARD))
        else:
            found.refused[toggle] = f"You cannot {toggle}, as {problem}"
    problem = _lock(ahead, carried) if ahead is not None else None
    if ahead is None or ahead.kind not in ("door", "box"):
        found.refused["toggle"] = "There is neither a door nor a box right in front of you."
    elif problem is not None:
        found.refused["toggle"] = f"You cannot toggle the door, as {problem}"
    else:
        found.possible["toggle"] = (_TOGGLE,)


def _lock(thing: Thing, carried: Carried | None) -> str | None:
    """Return why a thing cannot be opened now."""
    if thing.state != "locked" or carried == ("key", thing.color):
        return None
    if carried is None or carried[0] != "key":
        return "it is locked and you are not carrying a key."
    return "the color of the key you are carrying does not match the color of the door."


def _offer(found: Moves, name: str, walk: tuple[int, ...] | None, then: tuple[int, ...]) -> None:
    if walk is None:
        found.refused[name] = f"You cannot {name}, as there is no path leading to it."
    elif walk + then:
        found.possible[name] = walk + then
    else:
        found.refused[name] = "You are there already: it is right in front of you."


class _Walks:
    """The shortest ways over the cells that are seen to be free."""

    def __init__(self, floor: frozenset[Place]) -> None:
        start: _Stance = ((0, 0), 0)
        self._came: dict[_Stance, tuple[_Stance, int] | None] = {start: None}
        self._faces: dict[Place, _Stance] = {}
        self._enters: dict[Place, _Stance] = {}
        queue = deque([start])
        while queue:
            stance = queue.popleft()
            (right, ahead), heading = place, heading = stance
            step = _STEPS[heading]
            front = (right + step[0], ahead + step[1])
            self._faces.setdefault(front, stance)
            self._enters.setdefault(place, stance)
            turns: list[tuple[_Stance, int]] = [
                ((place, (heading - 1) % 4), _LEFT),
                ((place, (heading + 1) % 4), _RIGHT),
            ]
            forward: list[tuple[_Stance, int]] = [((front, heading), _FORWARD)] if front in floor else []
            for follower, action in forward + turns:
                if follower not in self._came:
                    self._came[follower] = (stance, action)
                    queue.append(follower)

    def to_face(self, place: Place) -> tuple[int, ...] | None:
        """Return actions after which the place is right in front; None without a way."""
        return self._way(self._faces.get(place))

    def to_enter(self, place: Place) -> tuple[int, ...] | None:
        """Return actions after which the agent stands at the place; None without a way."""
        return self._way(self._enters.get(place))

    def _way(self, stance: _Stance | None) -> tuple[int, ...] | None:
        if stance is None:
            return None
        actions: list[int] = []
        link = self._came[stance]
        while link is not None:
            stance, action = link
            actions.append(action)
            link = self._came[stance]
        return tuple(reversed(actions))
