"""A sight in words, in the form of AgentGym's observations; and an action as a model may write it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .moves import Carried
    from .sight import Place, Sight


_BLANKS = re.compile(r"[\s_]+")


def described(sight: Sight, carried: Carried | None) -> str:
    """Return the observation."""
    seen = "You cannot see any objects within sight. "
    if sight.things:
        things = [f"There is a {thing.name} {_where(thing.place)}. " for thing in sight.things]
        seen = "In front of you in this room, you can see several objects: " + "".join(things)
    facing = f"You are facing a {sight.barrier[0]} {sight.barrier[1]} steps away. " if sight.barrier else ""
    hands = f"a {carried[1]} {carried[0]}." if carried else None
    carrying = f"You are carrying {hands}" if hands else "You are not carrying anything."
    return f"{seen}The room has walls around you. {facing}{carrying}"


def plain(action: str) -> str:
    """Return an action's first line in small letters, without the marks that models put around it."""
    line = action.strip().partition("\n")[0].lower().strip(" \t.\"'`*[]")
    return re.sub(r"^pickup\b", "pick up", _BLANKS.sub(" ", line))


def _where(place: Place) -> str:
    right, ahead = place
    if right == 0:
        return f"right in front of you {ahead} steps away"
    side = "right" if right > 0 else "left"
    return f"{ahead} steps in front of you and {abs(right)} steps to your {side}"
