"""What nccl and ipc have in common: vLLM's trainer side, connected anew when an engine is another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from trainer.weight_sync.snapshots import snapshot_folder, spare_snapshot_folder

from .native import EnginesClient, LearnerSource, within
from .receipt import Delivery
from .weights import complete, file_weights, wire_dtype

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.weight_sync.choice import Device

    from .ends import WeightOwner
    from .engines import Engines


class Sender(Protocol):
    """vLLM's trainer side of a transfer, on one rank."""

    def send_weights(self) -> None:
        """One pass over the source; collective."""
        ...

    def shutdown(self) -> None:
        """Leave the group."""
        ...


class GpuTransfer:
    """Sends a learner's weights from GPU to GPU."""

    pauses = True

    def __init__(
        self,
        settings: SyncSettings,
        learner: WeightOwner,
        rank: int,
        device: Device,
        connect: Callable[[EnginesClient, LearnerSource, int], Sender],
    ) -> None:
        self._settings = settings
        self._rank = rank
        self._connect = connect
        self.delivery = Delivery(settings.sync.checksum_every, rank)
        self._client = EnginesClient(self.delivery)
        self._learner = learner
        self._dtype = wire_dtype(settings, device)
        self._source = LearnerSource(learner, self._dtype, self.delivery)
        self._sender: Sender | None = None
        self._met: dict[str, str] = {}

    def gather(self, version: int) -> int:
        """Nothing to prepare but the list of what will come."""
        self.delivery.begin()
        self._source.metadata()
        return 0

    def transfer(self, version: int, engines: Engines) -> int:
        self._client.engines = engines
        self._client.version = version
        timeout_s = self._settings.sync.timeout_s
        within(timeout_s, "meeting the engines", lambda: self._meet(engines))
        sender = self._sender
        if sender is not None:
            within(timeout_s, "sending the weights", sender.send_weights)
        return self._source.bytes()

    def keep(self, version: int) -> None:
        """Gathered once more, since copying to the host within the broadcast would keep engines waiting."""
        if not self._settings.sync.recovery:
            return
        weights = complete(self._learner.named_weights(), self._dtype)
        if self._rank == 0:
            folder, spare = (
                snapshot_folder(self._settings.folder, self._settings.sync.folder),
                spare_snapshot_folder(self._settings.folder),
            )
            file_weights(folder, spare, version, weights)
            return
        for _ in weights:
            pass

    def close(self) -> None:
        if self._sender is not None:
            self._sender.shutdown()
            self._sender = None

    def _meet(self, engines: Engines) -> None:
        """On rank 0 when an engine is another one than last time, on other ranks once."""
        facts: dict[str, Any] = dict(engines.get_status())
        there = {name: found.incarnation for name, found in facts.items()}
        if self._sender is not None and there == self._met:
            return
        if self._sender is not None:
            engines.each("forget the former group", lambda handle: handle.disconnect_learner())
            self.close()
        self._client.workers = {name: found.workers for name, found in facts.items()}
        self._sender = self._connect(self._client, self._source, self._rank)
        self._met = there
