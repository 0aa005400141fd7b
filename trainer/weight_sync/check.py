"""Compare the log-probabilities of engines and learner on the same tokens after each weight sync."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainer.errors import StaleWeights
from trainer.weight_sync.choice import resolve_transport

from .agreement import Agreement, AgreementResult, Reading, limits_of
from .probes import DRAWN_SEQUENCES, DRAWN_TOKENS, probes_of_batch, probes_of_draws
from .ranks import from_rank_zero
from .weights import wire_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainer.config.parts import SyncSettings
    from trainer.types import Batch
    from trainer.weight_sync.choice import Device

    from .engines import Engines
    from .probes import Probe
    from .weights import WeightOwner


logger = logging.getLogger(__name__)

REFRESH = 4
"""Weight syncs compared on the same probes. New probes cost two passes: before and after a weight sync."""


@dataclass(slots=True)
class _Asked:
    """Probes and their log-probabilities at the last weight sync."""

    probes: tuple[Probe, ...] = ()
    learner: NDArray[np.float64] | None = None
    engines: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    natural: bool = False
    """Whether the probes are from a batch, and not sampled because there was none."""
    served: int = 0
    """Weight syncs that were compared on these probes."""


class AgreementCheck:
    """The comparison on one rank. All ranks call every method, since scoring by the learner is collective."""

    def __init__(self, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> None:
        self._learner = learner
        self._rank = rank
        self._agreement = Agreement(
            limits_of(settings, device), rounds_updates_away=_rounds_away(settings, device)
        )
        self._precision = _precision(settings, device)
        self._asked = _Asked()

    def before(self, engines: Engines) -> None:
        """Score probes with the engines' former weights before the first weight sync."""
        if self._asked.probes:
            return
        if self._rank == 0:
            _leave_out_paused(engines)
        self._draw(engines)
        if self._rank == 0:
            self._asked.engines = _said(engines, self._asked.probes)

    def after(self, engines: Engines, version: int, batch: Batch | None) -> Mapping[str, AgreementResult]:
        """Compare each engine after a weight sync, and return results by name; nothing on ranks other than 0.

        Raises:
            StaleWeights: an engine does not sample with the weights that were sent.
        """
        if self._rank == 0:
            _labels(engines, version)
        if not self._asked.probes:
            self._draw(engines)
        asked = self._asked
        learner = self._opinion(asked.probes)
        found = _said(engines, asked.probes) if self._rank == 0 else {}
        judgements = {}
        for name, said in found.items():
            before = asked.engines.get(name)
            former = learner if asked.learner is None else asked.learner
            earlier = None if before is None else Reading(before, former)
            judgements[name] = self._agreement.judge(name, Reading(said, learner), earlier)
        for judgement in judgements.values():
            for warning in judgement.warnings:
                logger.warning("%s", warning)
        asked.learner, asked.engines, asked.served = learner, found, asked.served + 1
        self._refresh(engines, batch)
        return judgements

    def _draw(self, engines: Engines) -> None:
        draws = _draws(engines) if self._rank == 0 else ()
        self._asked = _Asked(probes_of_draws(from_rank_zero(draws)))

    def _refresh(self, engines: Engines, batch: Batch | None) -> None:
        """Replace the probes with sequences of the last batch, if due."""
        if self._asked.natural and self._asked.served < REFRESH:
            return
        # From rank 0, since the ranks score the probes together and need the same ones.
        probes = from_rank_zero(probes_of_batch(batch) if self._rank == 0 and batch is not None else ())
        if not probes:
            return
        said = _said(engines, probes) if self._rank == 0 else {}
        self._asked = _Asked(probes, self._opinion(probes), said, natural=True)

    def _opinion(self, probes: Sequence[Probe]) -> NDArray[np.float64]:
        """Return the learner's log-probabilities, in the engines' precision where that is the coarser one.

        Otherwise, an update too small for the engines' precision would look like one that never arrived.
        """
        with self._precision:
            rows = self._learner.probe([probe.token_ids for probe in probes]) if probes else []
        return _compared(probes, rows)


def worst_of(judgements: Mapping[str, AgreementResult]) -> AgreementResult | None:
    """Return the worst figures of all engines; None if none was compared."""
    if not judgements:
        return None
    found = judgements.values()
    return AgreementResult(
        difference=max(each.difference for each in found),
        worst=max(each.worst for each in found),
        k3=max(each.k3 for each in found),
        warnings=tuple(warning for each in found for warning in each.warnings),
    )


def _leave_out_paused(engines: Engines) -> None:
    """Set aside engines that an interrupted weight sync left paused; they answer after this one."""
    paused = {name for name, facts in engines.get_status().items() if facts.paused}
    engines.there = [handle for handle in engines.there if handle.name not in paused]


def _labels(engines: Engines, version: int) -> None:
    for name, facts in engines.get_status().items():
        if facts.version != version:
            raise StaleWeights(
                f"{name} reports version {facts.version} of the weights after version {version} was sent"
            )


def _draws(engines: Engines) -> tuple[tuple[int, ...], ...]:
    """Return sequences sampled by the first engine that answers; the others have the same weights."""
    found = engines.each("sample", lambda handle: handle.sample_text(DRAWN_SEQUENCES, DRAWN_TOKENS))
    return next(iter(found.values()), ())


def _said(engines: Engines, probes: Sequence[Probe]) -> dict[str, NDArray[np.float64]]:
    """Return the log-probabilities of the compared tokens by engine."""
    if not probes:
        return {}
    sequences = tuple(probe.token_ids for probe in probes)
    answers = engines.each("score", lambda handle: handle.score_sequences(sequences))
    return {name: _compared(probes, rows) for name, rows in answers.items()}


def _compared(
    probes: Sequence[Probe], rows: Sequence[Sequence[float] | NDArray[np.float32]]
) -> NDArray[np.float64]:
    """Return the compared entries of all probes in one array."""
    kept = [
        np.asarray(row, dtype=np.float64)[list(probe.compared)]
        for probe, row in zip(probes, rows, strict=True)
    ]
    return np.concatenate(kept) if kept else np.zeros(0)


def _rounds_away(settings: SyncSettings, device: Device) -> bool:
    """Return whether merging an adapter into 16-bit weights may lose small updates."""
    merged = settings.learner.lora is not None and resolve_transport(settings, device) != "adapter"
    return merged and wire_dtype(settings, device) is not torch.float32


def _precision(settings: SyncSettings, device: Device) -> AbstractContextManager[None]:
    wire = wire_dtype(settings, device)
    learner = settings.learner
    exact_learner = learner.dtype == "float32" or (learner.dtype == "auto" and learner.gpus == 0)
    if wire is torch.float32 or not exact_learner:
        return nullcontext()
    return torch.autocast("cuda" if learner.gpus else "cpu", wire)
