"""Do engines and learner agree? Log-probabilities of fixed token sequences tell stale weights at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import StaleWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from trainer.config.run import RunConfig
    from trainer.published import Device

    from .ends import EngineHandle
    from .engines import Engines

__all__ = ["difference_by_engine", "greatest_difference", "probes", "tolerance_of"]

LENGTHS = (24, 24, 12)
"""Tokens of the sequences; short, since every publication pays for them."""
ALPHABET = 64
"""Token ids are below this, which every vocabulary has."""


def probes(seed: int) -> tuple[tuple[int, ...], ...]:
    """Token sequences, the same at every publication and on every rank of a run."""
    generator = np.random.default_rng(seed)
    return tuple(tuple(int(token) for token in generator.integers(0, ALPHABET, length)) for length in LENGTHS)


def tolerance_of(config: RunConfig, device: Device) -> float:
    """The greatest difference that passes."""
    if config.sync.tolerance is not None:
        return config.sync.tolerance
    engine, learner = config.engine.dtype, config.learner.dtype
    exact_engine = engine == "float32" or (engine == "auto" and device == "cpu")
    exact_learner = learner == "float32" or (learner == "auto" and config.learner.gpus == 0)
    return 1e-4 if exact_engine and exact_learner else 0.1


def greatest_difference(found: Sequence[float], expected: Sequence[float]) -> float:
    """Between two lists of log-probabilities, one entry a token; the first token has none."""
    difference = np.abs(np.asarray(found[1:], dtype=np.float64) - np.asarray(expected[1:], dtype=np.float64))
    return float(difference.max()) if difference.size else 0.0


def difference_by_engine(
    engines: Engines,
    sequences: Sequence[tuple[int, ...]],
    expected: Sequence[np.ndarray],
    tolerance: float,
) -> float:
    """Ask every engine; the greatest difference of all.

    Raises:
        StaleWeights: it is beyond the tolerance, or not a number; names the engine.
    """
    worst = 0.0
    for sequence, right in zip(sequences, expected, strict=True):
        answers = engines.each("score", _rated(sequence))
        for name, found in answers.items():
            difference = greatest_difference(found, [float(value) for value in right])
            if not difference <= tolerance:
                raise StaleWeights(
                    f"{name} and the learner differ by {difference:.2g} in a log-probability; "
                    f"{tolerance:.2g} is allowed"
                )
            worst = max(worst, difference)
    return worst


def _rated(sequence: tuple[int, ...]) -> Callable[[EngineHandle], Future[tuple[float, ...]]]:
    return lambda handle: handle.rate(sequence)
