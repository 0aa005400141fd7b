"""Seeds of an episode's turns, of the parts of one turn, and of a further draw beside an episode's own.

A resumed run and a group that is played again sample alike, so that a value here is never changed.
"""

from __future__ import annotations

_STRIDE = 1_000_003
"""Distance of the seeds of two episodes' first turns, and of two parts of a turn a token apart; a prime."""
_OFFSET = 500_009
"""Distance of the seeds of two draws of one episode; another prime."""
_SEEDS = 2**31
_SEEDS_OF_PARTS = 2**63


def turn_seed(episode_seed: int, turn: int) -> int:
    """Return the seed of an episode's turn: turns are consecutive, and episodes a stride apart."""
    return (episode_seed * _STRIDE + turn) % _SEEDS


def continued_seed(seed: int, done: int) -> int:
    """Return the seed of the rest of a turn of which ``done`` tokens are sampled.

    With the turn's own seed, the rest would be sampled with the random numbers of its beginning.
    """
    return (seed + _STRIDE * done) % _SEEDS_OF_PARTS


def other_draw(seed: int) -> int:
    """Return a seed for what samples beside an episode or once more, and must not sample alike."""
    return seed + _OFFSET
