"""The weight sync of a run: engines pause, take the learner's weights and go on; then both are compared.

Every rank of the learner takes part at the same time, since gathering weights is collective; rank 0 talks to
the engines. An engine that dies meanwhile does not hold the others up: the weights lie where it finds them
when it starts again, and a weight sync ends when it has, or at its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.weight_sync.choice import resolve_device, resolve_transport

from .check import Check, worst_of
from .engines import Engines
from .ranks import from_rank_zero
from .sleep import Sleep
from .transports import open_transport

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.types import Batch

    from .agreement import Judgement
    from .ends import EngineHandle, WeightOwner
    from .transports import Transport


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How one weight sync went."""

    version: int
    seconds: float
    paused_s: float
    """Of them, the engines stood still."""
    bytes: int
    agreement: Judgement | None
    """How far engines and learner are apart, at the engine where it is most; None when not checked."""
    lost: tuple[str, ...]
    """Engines that were not there at the end."""

    def metrics(self) -> dict[str, float]:
        """As they are logged."""
        found = {"sync/seconds": self.seconds, "sync/paused": self.paused_s, "sync/bytes": float(self.bytes)}
        if self.agreement is not None:
            found["sync/difference"] = self.agreement.difference
            found["sync/worst"] = self.agreement.worst
            found["sync/k3"] = self.agreement.k3
            found["sync/warnings"] = float(len(self.agreement.warnings))
        return found | {"sync/lost": float(len(self.lost))}


class WeightSync:
    """Brings a learner's weights into the engines, over any transport."""

    def __init__(
        self,
        settings: SyncSettings,
        handles: Sequence[EngineHandle],
        learner: WeightOwner,
        rank: int,
        transport: Transport,
        check: Check | None,
    ) -> None:
        self._settings = settings
        self._handles = tuple(handles) if rank == 0 else ()
        self._learner = learner
        self._rank = rank
        self._transport = transport
        self._check = check
        self._sleep = Sleep(settings)

    def sync_weights(self, version: int, batch: Batch | None = None) -> Mapping[str, float]:
        """Have the engines sample with the learner's weights, under this version; metrics of how it went.

        Args:
            version: of the weights.
            batch: what they were trained on last, whose tokens engines and learner are compared on.

        Raises:
            StaleWeights: an engine took something else than was sent, or its log-probabilities are not the
                learner's.
            EngineError: an engine refused.
            Stalled: ``sync.timeout_s`` passed.
        """
        return self.report(version, batch).metrics()

    def report(self, version: int, batch: Batch | None = None) -> SyncReport:
        """Sync as ``sync_weights`` does, and return everything that is known of it."""
        # No rank goes on, and says that the engines have the weights, before rank 0 has seen to it.
        return from_rank_zero(self._report(version, batch))

    def _report(self, version: int, batch: Batch | None) -> SyncReport:
        began = time.monotonic()
        if self._check is not None:
            self._check.before(self._engines())
        size = self._transport.gather(version)
        engines = self._engines()
        paused = time.monotonic()
        size += self._given(version, engines)
        paused_s = time.monotonic() - paused if self._transport.pauses else 0.0
        self._transport.keep(version)
        self._catch_up(version, engines)
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
        """Have engines that sleep leave their GPUs to the learner, up to the next weight sync; collective.

        Raises:
            EngineError: an engine refused.
            Stalled: ``sync.timeout_s`` passed.
        """
        self._sleep.begin(self._engines())

    def wake_engines(self) -> None:
        """Have them sample again with the weights that they have; collective."""
        engines = self._engines()
        self._sleep.wake_weights(engines)
        self._sleep.wake_cache(engines)

    def close(self) -> None:
        """Let go of connections and files."""
        self._transport.close()

    def _engines(self) -> Engines:
        return Engines(self._handles, self._settings.sync.timeout_s)

    def _given(self, version: int, engines: Engines) -> int:
        pauses, mode = self._transport.pauses, self._settings.in_flight
        if pauses:
            engines.each("pause", lambda handle: handle.pause_generation(mode))
        self._sleep.wake_weights(engines)
        size = self._transport.transfer(version, engines)
        self._sleep.wake_cache(engines)
        if pauses:
            engines.each("resume", lambda handle: handle.resume_generation())
        return size

    def _catch_up(self, version: int, engines: Engines) -> None:
        """Engines that died on the way start with what lies ready; see that it is this version."""
        if not engines.lost:
            return
        back = engines.returned()
        behind = {name for name, facts in back.get_status().items() if facts.version != version}
        late = Engines(
            [handle for handle in back.there if handle.name in behind], self._settings.sync.timeout_s
        )
        late.each("pause", lambda handle: handle.pause_generation("keep"))
        late.each("catch up", lambda handle: handle.load_newest_snapshot())
        late.each("resume", lambda handle: handle.resume_generation())
        behind = {name for name, facts in late.get_status().items() if facts.version != version}
        gone = {handle.name for handle in late.lost} | behind
        engines.lost.extend(back.lost)
        engines.there.extend(handle for handle in back.there if handle.name not in gone)
        engines.lost.extend(handle for handle in back.there if handle.name in gone)


def make_weight_sync(
    settings: SyncSettings, engines: Sequence[EngineHandle], learner: WeightOwner, rank: int
) -> WeightSync:
    """Return the weight sync of a run, on each rank of the learner; only rank 0 talks to the engines."""
    device = resolve_device(settings)
    transport = open_transport(resolve_transport(settings, device), settings, learner, rank, device)
    check = Check(settings, learner, rank, device) if settings.sync.check else None
    return WeightSync(settings, engines, learner, rank, transport, check)
