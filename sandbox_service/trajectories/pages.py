"""Pages of a recorded history, bounded in events and in bytes.

Sequences rise along an instance's history, including what it inherited from its parents, so the sequence of
a page's last event is where the next page begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from .reader import ancestry, event_of_row
from .schema import events

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from .records import EventRecord


MOST_EVENTS = 1000
"""Most events of a page."""


@dataclass(frozen=True, slots=True)
class PageBounds:
    """The start of a page and its bounds."""

    after: int = -1
    """Sequence of the last event before the page."""
    most_events: int = MOST_EVENTS
    most_bytes: int = 4 * 1024 * 1024
    """Bytes of bodies that the page does not exceed, unless a single event does."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events in order."""

    events: tuple[EventRecord, ...]
    more: bool
    """Whether other events follow."""


def read_page(connection: Connection, instance_id: str, bounds: PageBounds) -> EventPage:
    """Read one page; only the events of the page are loaded with their bodies."""
    room, more = bounds.most_bytes, False
    found: list[EventRecord] = []
    for part_id, through in ancestry(connection, instance_id):
        clauses = [events.c.instance_id == part_id, events.c.sequence > bounds.after]
        if through is not None:
            clauses.append(events.c.sequence <= through)
        left = bounds.most_events - len(found)
        sizes = sa.func.length(events.c.request) + sa.func.length(events.c.response)
        query = sa.select(events.c.sequence, sizes.label("size")).where(*clauses)
        rows = connection.execute(query.order_by(events.c.sequence).limit(left + 1)).all()
        chosen: list[Any] = []
        for row in rows[:left]:
            if room < row.size and (found or chosen):
                break
            room -= row.size
            chosen.append(row.sequence)
        if chosen:
            wanted = sa.select(events).where(*clauses, events.c.sequence <= chosen[-1])
            found += map(event_of_row, connection.execute(wanted.order_by(events.c.sequence)))
        more = len(chosen) < len(rows)
        if more:
            break
    return EventPage(tuple(found), more)
