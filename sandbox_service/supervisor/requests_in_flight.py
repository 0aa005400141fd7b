"""Bounds the requests that a supervisor has begun and not answered, so that no tenant fills it.

Creates wait for boxes, agents take minutes, and repeats of a keyed call wait for its outcome; each of them is
held in memory meanwhile. What may wait for long counts apart from the tenant's other requests, which free the
boxes. Each count may grow to a share of the room that is left, so there is always some for other tenants. A
request that finds none is refused before anything of it is done: if it waited to be read, all those behind it
on the connection would wait as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.errors import OverCapacityError
from sandbox_service.wire.frames import Op

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame

    Holder = tuple[str, bool]
    """A tenant, and whether its requests are those that may wait for long."""


_MOST = 32_768
"""Requests of all tenants, about; each takes some kilobytes beside its body."""
_SHARE = 4
"""One in this many free places is the most that one count may have."""
_ALWAYS = 64
"""Places that a count has even when all are taken."""
_RETRY_S = 1.0
_LONG = frozenset({Op.CREATE, Op.FORK, Op.RUN_AGENT})
_AT_ONCE = frozenset({Op.PING, Op.STATS, Op.DRAIN})
"""Requests of the service itself; a supervisor that refused them would be taken for a failed one."""


class RequestsInFlight:
    """Counts the requests of each tenant, those that may wait for long on their own."""

    def __init__(self, most: int = _MOST) -> None:
        self._free = most
        self._held: dict[Holder, int] = {}

    def begin_request(self, frame: Frame) -> Holder:
        """Count a request until ``end_request``, and return what holds its place.

        Raises OverCapacityError(QUEUE_FULL).
        """
        holder = (str(frame.meta.get("tenant", "")), frame.op in _LONG)
        held = self._held.get(holder, 0)
        if held >= max(_ALWAYS, self._free // _SHARE) and frame.op not in _AT_ONCE:
            kind = "creates, forks and agents" if holder[1] else "requests"
            raise OverCapacityError(f"{held} {kind} of this tenant are in progress or wait here", _RETRY_S)
        self._held[holder] = held + 1
        self._free -= 1
        return holder

    def end_request(self, holder: Holder) -> None:
        """Stop counting an answered request."""
        self._free += 1
        held = self._held[holder] - 1
        if held:
            self._held[holder] = held
        else:
            del self._held[holder]
