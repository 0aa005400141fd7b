"""Choose a supervisor: pure functions of names and counts.

Rendezvous hashing: every supervisor has a weight for every key, and the greatest wins. All gateways agree
without communication, and when a supervisor comes or goes only the keys that it wins move.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

_OWN_ID = re.compile(r"([a-z0-9]+)\.[0-9a-f]{32}")
"""An id that the service made (``InstanceTable.new_id``); one that a client chose may have dots, too."""


def rank(key: str, names: Iterable[str]) -> list[str]:
    """Return the names in the order in which they are responsible for the key."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def least_loaded(load: Mapping[str, int], names: Iterable[str], turn: int = 0) -> list[str]:
    """Return the names, the least loaded first; equals take turns."""
    ordered = sorted(names)
    first = turn % len(ordered) if ordered else 0
    return sorted([*ordered[first:], *ordered[:first]], key=lambda name: load.get(name, 0))


def creator_of(instance_id: str) -> str | None:
    """Return the supervisor that created an instance, by its id; None for an id that a client chose."""
    own = _OWN_ID.fullmatch(instance_id)
    return None if own is None else own[1]


def _weight(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
