"""Transports between GPUs: vLLM's own weight transfers over CUDA IPC and NCCL.

The learner connects to the engines at the first weight sync, and again when one of them was restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo
from vllm.utils.network_utils import get_ip, get_open_port

from trainer.weight_sync.snapshots import snapshot_folder, spare_snapshot_folder

from .receipt import Delivery
from .snapshot_writer import SnapshotWriter
from .vllm_transfer import EnginesClient, LearnerSource, within
from .weights import complete, wire_dtype

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.weight_sync.choice import Device

    from .engines import Engines
    from .weights import WeightOwner


class TransferSender(Protocol):
    """vLLM's trainer side of a transfer, on one rank."""

    def send_weights(self) -> None:
        """Send all weights of the source once; collective."""
        ...

    def shutdown(self) -> None:
        """Leave the transfer group."""
        ...


class GpuTransfer:
    """Sends a learner's weights from GPU to GPU with one of vLLM's transfers."""

    pauses = True

    def __init__(
        self,
        settings: SyncSettings,
        learner: WeightOwner,
        rank: int,
        device: Device,
        connect: Callable[[EnginesClient, LearnerSource, int], TransferSender],
    ) -> None:
        self._settings = settings
        self._rank = rank
        self._connect = connect
        self.delivery = Delivery(settings.sync.checksum_every, rank)
        self._client = EnginesClient(self.delivery)
        self._learner = learner
        self._dtype = wire_dtype(settings, device)
        self._source = LearnerSource(learner, self._dtype, self.delivery)
        self._sender: TransferSender | None = None
        self._connected: dict[str, str] = {}
        self._snapshots = SnapshotWriter(
            snapshot_folder(settings.folder, settings.sync.folder),
            spare_snapshot_folder(settings.folder),
            settings.sync.timeout_s,
        )

    def gather(self, version: int) -> int:
        """List the weights; they are gathered during the transfer."""
        self.delivery.begin()
        self._source.metadata()
        return 0

    def transfer(self, version: int, engines: Engines) -> int:
        self._client.engines = engines
        self._client.version = version
        timeout_s = self._settings.sync.timeout_s
        within(timeout_s, "connecting to the engines", lambda: self._connect_to(engines))
        sender = self._sender
        if sender is not None:
            within(timeout_s, "sending the weights", sender.send_weights)
        return self._source.bytes()

    def keep(self, version: int) -> None:
        """Gather the weights again for a snapshot; copying during the transfer would prolong the pause."""
        if not self._settings.sync.recovery:
            return
        weights = complete(self._learner.named_weights(), self._dtype)
        if self._rank == 0:
            self._snapshots.begin_snapshot(version, weights)
            return
        for _ in weights:
            pass

    def await_snapshot(self) -> None:
        self._snapshots.await_snapshot()

    def close(self) -> None:
        """Wait for the last snapshot. Connections end with the process."""
        self._snapshots.close()

    def _disconnect(self) -> None:
        if self._sender is not None:
            self._sender.shutdown()
            self._sender = None

    def _connect_to(self, engines: Engines) -> None:
        """Connect at the first weight sync and, on rank 0, again after an engine was restarted."""
        facts: dict[str, Any] = dict(engines.get_status())
        there = {name: found.incarnation for name, found in facts.items()}
        # A restarted engine has another incarnation. It cannot enter the group of the former one, so all
        # leave that and form another.
        if self._sender is not None and there == self._connected:
            return
        if self._sender is not None:
            engines.each("leave the former transfer group", lambda handle: handle.disconnect_learner())
            self._disconnect()
        self._client.workers = {name: found.workers for name, found in facts.items()}
        self._sender = self._connect(self._client, self._source, self._rank)
        self._connected = there


class IpcTransfer(GpuTransfer):
    """CUDA IPC: each engine reads the weights of the rank on its own GPU, a piece at a time."""

    def __init__(self, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> None:
        super().__init__(settings, learner, rank, device, _connect_ipc)


def _connect_ipc(client: EnginesClient, source: LearnerSource, rank: int) -> TransferSender:
    # vLLM's own buffer of 1 GiB is too small for the embedding of an 8B model, and much for a small model.
    info = IPCTrainerInitInfo(rank=rank, packed=True, packed_buffer_size_bytes=source.piece_bytes())
    sender: TransferSender = WeightTransferTrainerFactory.trainer_init(info, client=client, source=source)
    return sender


class NcclTransfer(GpuTransfer):
    """NCCL: rank 0 broadcasts to all workers of all engines; the other ranks help to gather."""

    def __init__(self, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> None:
        super().__init__(settings, learner, rank, device, _connect_nccl)


def _connect_nccl(client: EnginesClient, source: LearnerSource, rank: int) -> TransferSender:
    info = NCCLTrainerInitInfo(
        master_address=get_ip(),
        master_port=get_open_port(),
        world_size=1 + sum(client.workers.values()),
        rank=rank,
    )
    sender: TransferSender = WeightTransferTrainerFactory.trainer_init(info, client=client, source=source)
    return sender
