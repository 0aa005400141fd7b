"""Check that engines and learner agree: log-probabilities of the same tokens separate stale weights from
rounding.

Two programs that compute with the same weights in 16 bits do not get the same numbers. bfloat16 has 8 bits of
precision: logits between 16 and 32 are 0.125 apart, so rounding them alone gives an error of
0.125 / sqrt(12) = 0.036 nats (root mean square); each of the 2 L additions to the hidden state of L layers
adds 2^-8 / sqrt(12) of its size, which for L = 30 is 1 % of the logits' spread of 3 to 5, another 0.03 to
0.05. So the mean absolute difference is expected at 0.03 to 0.06 nats, on natural text, with single tokens
beyond 0.3, and weights may move by less in an update. A bound on the difference alone would let stale weights
pass or end good runs. So there are four questions, the first two about the difference as it is, the others
about what the weight sync changed on the same tokens:

``difference``
    The mean absolute difference. In 16 bits, from 0.1 (about twice what is expected) on it is warned of, and
    from 0.35 = ln(2) / 2 on it is an error: then the ratio of two typical tokens is 2, where the mismatch
    correction cuts off. A single unlikely token may differ by several nats, which moves the mean of a few
    hundred tokens by 0.01 to 0.02; so a warning needs 2 standard errors beyond its bound. Where both sides
    compute in float32 the bounds are 1e-5 and 1e-4 on CPUs (measured: 3e-7) and 1e-3 and 5e-3 on GPUs,
    whose kernels may multiply in TF32.
``stale``
    e are the engine's log-probabilities after the weight sync, l_new and l_old the learner's after and before
    the update. The mean of |e - l_new| - |e - l_old| is below 0 where the new weights arrived and above 0
    where the old ones are still there, and has the expectation 0 where the movement is lost in the noise,
    whose distribution is the same on both sides. Sums over tokens and weight syncs, with older ones counting
    less, are divided by their standard error; beyond ``SIGNIFICANT`` = 6 standard errors the old weights
    explain the engine better. With independent tokens chance alone would do that once in a billion
    weight syncs; tokens of one sequence are not independent, so read the 6 as a large margin and not as a
    probability.
``jump``
    The difference grew by three times what it was on the same tokens, beyond 6 standard errors, and by more
    than the whole movement of the update: something arrived, and it is not what was sent.
``missing``
    Regression of l_new - e on l_new - l_old: the share of the update's movement that the engine lacks, as
    when one layer stays behind. The learner's own noise is in both and looks like a share of at most the
    squared difference over the squared movement, which is taken off before the share is compared with
    6 standard errors. It is warned of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import StaleWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainer.config.parts import Hardware
    from trainer.weight_sync.choice import Device


SIGNIFICANT = 6.0
"""Standard errors."""
BEYOND = 2.0
"""Standard errors by which a mean difference must be above its bound to be warned of."""
MEMORY = 0.9
"""The part of a weight sync's evidence that still counts at the next one."""
JUMP = 3.0
LEAST_MISSING = 0.01
"""Shares below this are not worth a warning."""


@dataclass(frozen=True, slots=True)
class AgreementLimits:
    """Of the mean absolute difference, in nats."""

    warn: float
    fail: float


def limits_of(hardware: Hardware, device: Device) -> AgreementLimits:
    """Return the bounds by the precision that both sides compute in, where the run sets none."""
    engine, learner, sync = hardware.engine, hardware.learner, hardware.sync
    exact_engine = engine.dtype == "float32" or (engine.dtype == "auto" and device == "cpu")
    exact_learner = learner.dtype == "float32" or (learner.dtype == "auto" and learner.gpus == 0)
    if not (exact_engine and exact_learner):
        limits = AgreementLimits(0.1, math.log(2) / 2)
    elif device == "cpu" and learner.gpus == 0:
        limits = AgreementLimits(1e-5, 1e-4)
    else:
        limits = AgreementLimits(1e-3, 5e-3)
    fail = limits.fail if sync.tolerance is None else sync.tolerance
    return AgreementLimits(min(limits.warn if sync.warn_above is None else sync.warn_above, fail), fail)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Log-probabilities of the same tokens, one entry a token."""

    engine: NDArray[np.float64]
    learner: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AgreementResult:
    """The evidence about one engine after one weight sync."""

    difference: float
    """Mean absolute difference of log-probabilities, in nats."""
    worst: float
    """The greatest."""
    k3: float
    """Estimate of the divergence KL(engine || learner) on tokens that the engine sampled (Schulman 2020)."""
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Evidence:
    """Sums over weight syncs."""

    stale: float = 0.0
    stale_variance: float = 0.0
    lacking: float = 0.0
    lacking_variance: float = 0.0
    moved: float = 0.0
    noise: float = 0.0

    def add(self, now: NDArray[np.float64], learner: NDArray[np.float64], old: NDArray[np.float64]) -> None:
        """Count the tokens of a weight sync: the engine's, the learner's and the learner's before."""
        stale = np.abs(now - learner) - np.abs(now - old)
        residual, movement = learner - now, learner - old
        forgotten = MEMORY**2
        self.stale = MEMORY * self.stale + float(stale.sum())
        self.stale_variance = forgotten * self.stale_variance + float((stale**2).sum())
        self.lacking = MEMORY * self.lacking + float((residual * movement).sum())
        self.lacking_variance = forgotten * self.lacking_variance + float(((residual * movement) ** 2).sum())
        self.moved = MEMORY * self.moved + float((movement**2).sum())
        self.noise = MEMORY * self.noise + float((residual**2).sum())

    @property
    def staleness(self) -> float:
        """Standard errors by which the old weights explain the engine better than the new ones."""
        return self.stale / math.sqrt(self.stale_variance) if self.stale_variance else 0.0

    @property
    def missing(self) -> float:
        """Share of the movement that the engine lacks, at least; 0 where none is certain."""
        if not self.moved:
            return 0.0
        share = self.lacking / self.moved
        doubt = self.noise / self.moved + SIGNIFICANT * math.sqrt(self.lacking_variance) / self.moved
        return share - doubt if share - doubt >= LEAST_MISSING else 0.0


class Agreement:
    """Judges engines after each weight sync, and remembers what it saw of each."""

    def __init__(self, limits: AgreementLimits, *, rounds_updates_away: bool = False) -> None:
        """``rounds_updates_away``: the engines' precision may swallow updates, which then look stale."""
        self._limits = limits
        self._lenient = rounds_updates_away
        self._evidence: dict[str, _Evidence] = {}

    def judge(self, name: str, now: Reading, before: Reading | None = None) -> AgreementResult:
        """Judge an engine that was asked for the same tokens ``now`` and ``before`` the weight sync.

        Where the learner's former weights were never asked, its present ones stand for them.

        Raises:
            StaleWeights: it does not sample with the weights that were sent; says how that is known.
        """
        apart = np.abs(now.engine - now.learner)
        difference = float(apart.mean()) if apart.size else 0.0
        if not difference <= self._limits.fail:  # also where it is not a number
            raise StaleWeights(
                f"{name} and the learner differ by {difference:.2g} nats a token on average; "
                f"{self._limits.fail:.2g} is allowed (sync.tolerance)"
            )
        warnings = []
        error = float(apart.std()) / math.sqrt(apart.size) if apart.size else 0.0
        if difference - BEYOND * error > self._limits.warn:
            warnings.append(
                f"{name} and the learner differ by {difference:.2g} nats a token on average, and less than "
                f"{self._limits.warn:.2g} is expected (sync.warn_above)"
            )
        if before is not None and apart.size:
            warnings += self._arrived(name, now, before)
            self._no_jump(name, now, before)
        ratio = now.learner - now.engine
        k3 = float((np.exp(ratio) - 1 - ratio).mean()) if apart.size else 0.0
        return AgreementResult(difference, float(apart.max(initial=0.0)), k3, tuple(warnings))

    def _no_jump(self, name: str, now: Reading, before: Reading) -> None:
        grown = np.abs(now.engine - now.learner) - np.abs(before.engine - before.learner)
        moved = float(np.abs(now.learner - before.learner).mean())
        base = float(np.abs(before.engine - before.learner).mean())
        least = max(JUMP * base, moved, self._limits.warn / 2)
        error = float(grown.std()) / math.sqrt(grown.size)
        if grown.mean() > max(least, SIGNIFICANT * error):
            raise StaleWeights(
                f"{name} took weights that are not the learner's: their log-probabilities differed by "
                f"{base:.2g} nats a token before the weight sync, and by {base + grown.mean():.2g} after it"
            )

    def _arrived(self, name: str, now: Reading, before: Reading) -> list[str]:
        evidence = self._evidence.setdefault(name, _Evidence())
        evidence.add(now.engine, now.learner, before.learner)
        if evidence.staleness > SIGNIFICANT:
            said = (
                f"{name} samples with older weights than were sent: those before the update explain its "
                f"log-probabilities better ({evidence.staleness:.0f} standard errors)"
            )
            if not self._lenient:
                raise StaleWeights(said)
            return [
                f"{said}; the engine's precision rounds small updates away, sync.transport=adapter does not"
            ]
        if evidence.missing:
            return [f"{name} lacks at least {evidence.missing:.1%} of what the update moved"]
        return []
