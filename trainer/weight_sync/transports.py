"""Transports of weights, by kind: a file or folder that both ends see, CUDA IPC, NCCL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings

    from .choice import Device, TransportKind
    from .ends import WeightOwner
    from .engines import Engines
    from .receipt import Delivery


class Transport(Protocol):
    """How weights get from the learner to the engines."""

    delivery: Delivery
    """What was sent last."""

    def gather(self, version: int) -> int:
        """Make weights ready while engines still sample; collective. Bytes that were written."""
        ...

    def transfer(self, version: int, engines: Engines) -> int:
        """Have the engines take them; collective, with engines on rank 0 only. Bytes that were sent."""
        ...

    def keep(self, version: int) -> None:
        """Make sure that engines that start find the weights, once the others sample again."""
        ...

    @property
    def pauses(self) -> bool:
        """Whether engines stand still meanwhile."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
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
    from .ipc import GpuMemory

    return GpuMemory(settings, learner, rank, device)


def _nccl(settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> Transport:
    from .nccl import Broadcast

    return Broadcast(settings, learner, rank, device)


TRANSPORTS: Mapping[TransportKind, Opener] = {
    "shared_file": _shared_file,
    "adapter": _adapter,
    "ipc": _ipc,
    "nccl": _nccl,
}
