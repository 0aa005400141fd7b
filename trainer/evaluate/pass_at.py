"""pass@k: the probability that at least one of k episodes of a task solves it.

The unbiased estimator of Chen et al. 2021 (arXiv 2107.03374, equation 1): 1 - C(n - c, k) / C(n, k) for c
solved ones among n episodes. avg@k, the expected share of k episodes that solve the task, has the unbiased
estimate c / n for every k.
"""

from __future__ import annotations

import math

from trainer.errors import ConfigError


def pass_at_k(episodes: int, successes: int, k: int) -> float:
    """Return the estimate for one task. Raises ConfigError if k exceeds the number of its episodes."""
    if not 1 <= k <= episodes:
        raise ConfigError(f"pass@{k} needs at least {k} episodes of a task, and there are {episodes}")
    if successes > episodes - k:
        return 1.0  # any k episodes have a solved one among them
    return 1.0 - math.comb(episodes - successes, k) / math.comb(episodes, k)
