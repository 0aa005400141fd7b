"""Which supervisor: pure functions of names and counts.

Rendezvous hashing: every supervisor has a weight for every key, and the greatest wins. All gateways agree
without talking, and when a supervisor comes or goes only the keys that it wins move.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["least_loaded", "owner_of", "rank"]


def rank(key: str, names: Iterable[str]) -> list[str]:
    """The names in the order in which they are responsible for the key."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def least_loaded(load: Mapping[str, int], names: Iterable[str], turn: int = 0) -> list[str]:
    """The names by how little they have to do; equals take turns."""
    ordered = sorted(names)
    first = turn % len(ordered) if ordered else 0
    return sorted([*ordered[first:], *ordered[:first]], key=lambda name: load.get(name, 0))


def owner_of(instance_id: str) -> str | None:
    """The supervisor that an id of the service's own making names; None when it names none."""
    name, dot, rest = instance_id.partition(".")
    return name if dot and name and rest else None


def _weight(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=8).digest()
