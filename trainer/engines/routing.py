"""Choose the engine of a request: the same one for all turns of an episode, unless it is overloaded; pure.

Rendezvous hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam 2018): the prefix of an episode's
next turn is in the cache of the engine that sampled the last one, and no engine gets much more than
its share.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

SLACK = 1.25


def choose_engine(key: str, loads: Mapping[str, int]) -> str:
    """Return the name of the engine for a new request; ``loads`` are requests in progress by engine.

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
