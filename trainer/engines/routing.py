"""Which engine a request goes to: always the same one for an episode, unless that one is overloaded. Pure.

Rendezvous hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam 2018): an episode's next turn finds
its prefix in the cache of the engine that had the last one, and no engine gets much more than its share.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

SLACK = 1.25


def choose_engine(key: str, loads: Mapping[str, int]) -> str:
    """The name among ``loads`` (requests under way, by engine) that a new request goes to.

    Raises:
        ValueError: there is no engine.
    """
    if not loads:
        raise ValueError("no engine to choose from")
    bound = math.ceil(SLACK * (sum(loads.values()) + 1) / len(loads))
    for name in sorted(loads, key=lambda name: _weight(key, name), reverse=True):
        if loads[name] < bound:
            return name
    return min(loads, key=lambda name: loads[name])


def _weight(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{name}".encode(), digest_size=8).digest()
