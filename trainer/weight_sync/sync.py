"""Sync the learner's weights to the engines: pause, transfer, resume, then compare engines with the learner.

All ranks of the learner take part at the same time, since gathering weights is collective; rank 0 alone talks
to the engines. An engine that dies during a weight sync does not block the others: it loads the newest
snapshot when it is restarted. The weight sync waits for it until ``sync.timeout_s``, and all that
follows has that time once more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from trainer.weight_sync.choice import resolve_device, resolve_transport, shares_gpus

from .check import AgreementCheck, worst_of
from .engines import Engines
from .ranks import from_rank_zero
from .transports import open_transport

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.types import Batch

    from .agreement import AgreementResult
    from .engines import EngineHandle
    from .transports import Transport
    from .weights import WeightOwner


class EngineSleep:
    """Hands the memory of shared GPUs to the learner while it updates, and to the engines while they sample.

    Engines free theirs with ``engine.sleep`` only. The learner always returns what it does not use, since an
    engine that is restarted beside it needs its whole share. All ranks call every method, with the engines on
    rank 0.
    """

    def __init__(self, settings: SyncSettings) -> None:
        self._on = settings.engine.sleep
        self._mode = settings.in_flight
        self._shared = shares_gpus(settings, resolve_device(settings))

    def free_memory(self, engines: Engines) -> None:
        """Free the engines' memory; no rank returns before all engines have done so."""
        if self._on:
            engines.each("sleep", lambda handle: handle.enter_sleep(self._mode))
            from_rank_zero(None)

    def wake_weights(self, engines: Engines) -> None:
        """Restore the engines' memory for weights, after all ranks have freed what they do not use."""
        if self._shared:
            _free_cached_memory()
        if self._on:
            engines.each("restore its memory", lambda handle: handle.wake_up("weights"))

    def wake_cache(self, engines: Engines) -> None:
        """Restore the engines' cache, with which they sample again."""
        if self._shared:
            _free_cached_memory()
        if self._on:
            engines.each("restore its memory", lambda handle: handle.wake_up("kv_cache"))


def _free_cached_memory() -> None:
    """Return memory that torch caches to the GPU, where other processes can allocate it; collective."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of one weight sync."""

    version: int
    seconds: float
    paused_s: float
    """Seconds for which the engines were paused."""
    bytes: int
    agreement: AgreementResult | None
    """The worst agreement of all engines with the learner; None when it is not checked."""
    lost: tuple[str, ...]
    """Names of the engines that were lost and did not return in time."""

    def metrics(self) -> dict[str, float]:
        """Return the metrics of a step."""
        found = {"sync/seconds": self.seconds, "sync/paused": self.paused_s, "sync/bytes": float(self.bytes)}
        if self.agreement is not None:
            found["sync/difference"] = self.agreement.difference
            found["sync/worst"] = self.agreement.worst
            found["sync/k3"] = self.agreement.k3
            found["sync/warnings"] = float(len(self.agreement.warnings))
        return found | {"sync/lost": float(len(self.lost))}


class WeightSync:
    """Syncs a learner's weights to the engines over a transport."""

    def __init__(
        self,
        settings: SyncSettings,
        handles: Sequence[EngineHandle],
        learner: WeightOwner,
        rank: int,
        transport: Transport,
        check: AgreementCheck | None,
    ) -> None:
        self._settings = settings
        self._handles = tuple(handles) if rank == 0 else ()
        self._learner = learner
        self._rank = rank
        self._transport = transport
        self._check = check
        self._sleep = EngineSleep(settings)

    def sync_weights(self, version: int, batch: Batch | None = None) -> Mapping[str, float]:
        """Sync the learner's weights to all engines under this version, and return its metrics; collective.

        Args:
            version: version of the weights.
            batch: the last batch, on whose tokens engines and learner are compared.

        Raises:
            StaleWeights: an engine loaded other weights than were sent, or its log-probabilities differ from
                the learner's.
            EngineError: an engine refused.
            Stalled: ``sync.timeout_s`` passed.
        """
        return self.report(version, batch).metrics()

    def report(self, version: int, batch: Batch | None = None) -> SyncReport:
        """Sync as ``sync_weights`` does, and return the whole report."""
        # A barrier as well: a rank that returned early would let the loop announce weights that engines
        # do not have yet.
        return from_rank_zero(self._report(version, batch))

    def _report(self, version: int, batch: Batch | None) -> SyncReport:
        # The order keeps engines sampling for as long as possible: everything that needs no pause comes
        # before it (gather) or after it (keep, verify, check).
        began = time.monotonic()
        if self._check is not None:
            # With the former weights still in place: the check recognises stale weights by what changes.
            self._check.before(self._engines())
        size = self._transport.gather(version)
        engines = self._engines()
        paused = time.monotonic()
        size += self._transfer(version, engines)
        paused_s = time.monotonic() - paused if self._transport.pauses else 0.0
        self._transport.keep(version)
        self._recover(version, engines)
        # Receipts before log-probabilities: a receipt names the tensor that is wrong.
        if self._rank == 0:
            self._transport.delivery.verify(engines, version)
        judged = {} if self._check is None else self._check.after(engines, version, batch)
        return SyncReport(
            version=version,
            seconds=time.monotonic() - began,
            paused_s=paused_s,
            bytes=size,
            agreement=worst_of(judged),
            lost=tuple(handle.name for handle in engines.lost),
        )

    def sleep_engines(self) -> None:
        """Free the memory of engines that sleep (``engine.sleep``) until the next weight sync; collective.

        Raises:
            EngineError: an engine refused.
            Stalled: ``sync.timeout_s`` passed.
        """
        self._sleep.free_memory(self._engines())

    def wake_engines(self) -> None:
        """Resume sampling with the weights that the engines have; collective."""
        engines = self._engines()
        self._sleep.wake_weights(engines)
        self._sleep.wake_cache(engines)

    def close(self) -> None:
        """Finish what is still being written, at the end of the run."""
        self._transport.close()

    def _engines(self) -> Engines:
        return Engines(self._handles, self._settings.sync.timeout_s)

    def _transfer(self, version: int, engines: Engines) -> int:
        # Weights must not change under a step of the engine, so it pauses first. A sleeping engine needs its
        # memory for weights before the transfer; its cache comes back after it, when the learner's copies
        # are gone. Sampling resumes last.
        pauses, mode = self._transport.pauses, self._settings.in_flight
        if pauses:
            engines.each("pause", lambda handle: handle.pause_generation(mode))
        self._sleep.wake_weights(engines)
        size = self._transport.transfer(version, engines)
        self._sleep.wake_cache(engines)
        if pauses:
            engines.each("resume", lambda handle: handle.resume_generation())
        return size

    def _recover(self, version: int, engines: Engines) -> None:
        """Wait for lost engines to return, and have them load this version if they started with another."""
        if not engines.lost:
            return
        self._transport.await_snapshot()  # with which they restart
        # The wait may take all the time, and all engines have receipts and scores to return afterwards.
        back = engines.returned()
        behind = {name for name, facts in back.get_status().items() if facts.version != version}
        late = back.only([handle for handle in back.there if handle.name in behind])
        late.each("pause", lambda handle: handle.pause_generation("keep"))
        late.each("load the newest snapshot", lambda handle: handle.load_newest_snapshot())
        late.each("resume", lambda handle: handle.resume_generation())
        behind = {name for name, facts in late.get_status().items() if facts.version != version}
        gone = {handle.name for handle in late.lost} | behind
        engines.lost.extend(back.lost)
        engines.there.extend(handle for handle in back.there if handle.name not in gone)
        engines.lost.extend(handle for handle in back.there if handle.name in gone)


def make_weight_sync(
    settings: SyncSettings, engines: Sequence[EngineHandle], learner: WeightOwner, rank: int
) -> WeightSync:
    """Return the weight sync of a run for one rank of the learner; only rank 0 talks to the engines."""
    device = resolve_device(settings)
    transport = open_transport(resolve_transport(settings, device), settings, learner, rank, device)
    check = AgreementCheck(settings, learner, rank, device) if settings.sync.check else None
    return WeightSync(settings, engines, learner, rank, transport, check)
