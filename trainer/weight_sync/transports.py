"""Transports of weights by kind: a shared file, an adapter's folder, CUDA IPC, NCCL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings

    from .choice import Device, TransportKind
    from .engines import Engines
    from .receipt import Delivery
    from .weights import WeightOwner


class Transport(Protocol):
    """Moves weights from the learner to the engines."""

    delivery: Delivery
    """Record of the last weight sync, to compare receipts with."""

    def gather(self, version: int) -> int:
        """Prepare weights while engines still sample, and return the bytes written; collective."""
        ...

    def transfer(self, version: int, engines: Engines) -> int:
        """Transfer the weights, and return the bytes sent; collective, with engines on rank 0 only."""
        ...

    def keep(self, version: int) -> None:
        """Keep a snapshot for engines that restart, after the others have resumed sampling; collective.

        It may still be in writing when this returns.
        """
        ...

    def await_snapshot(self) -> None:
        """Return when the snapshot is complete. Raises ConfigError and Stalled."""
        ...

    @property
    def pauses(self) -> bool:
        """Whether engines pause for the transfer."""
        ...

    def close(self) -> None:
        """Finish what is still being written, at the end of the run."""
        ...


Opener: TypeAlias = "Callable[[SyncSettings, WeightOwner, int, Device], Transport]"


def open_transport(
    kind: TransportKind, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device
) -> Transport:
    """Return the transport of this kind, for one rank of the learner."""
    return TRANSPORTS[kind](settings, learner, rank, device)


# A kind's module is imported when it is opened: those of IPC and NCCL import vLLM.


def _shared_file(settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> Transport:
    from .shared_file import SharedFile

    return SharedFile(settings, learner, rank, device)


def _adapter(settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> Transport:
    from .adapter import AdapterFolder

    return AdapterFolder(settings, learner, rank)


def _ipc(settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> Transport:
    from .gpu_transfer import IpcTransfer

    return IpcTransfer(settings, learner, rank, device)


def _nccl(settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> Transport:
    from .gpu_transfer import NcclTransfer

    return NcclTransfer(settings, learner, rank, device)


TRANSPORTS: Mapping[TransportKind, Opener] = {
    "shared_file": _shared_file,
    "adapter": _adapter,
    "ipc": _ipc,
    "nccl": _nccl,
}
