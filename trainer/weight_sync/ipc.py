"""Handles of GPU memory, for engines on the learner's own GPUs, by vLLM's own transfer over CUDA IPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

from .gpu_transfer import GpuTransfer

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.weight_sync.choice import Device

    from .ends import WeightOwner
    from .gpu_transfer import Sender
    from .native import EnginesClient, LearnerSource


class GpuMemory(GpuTransfer):
    """Every rank lends its GPU's copy, and each engine reads the one on its own GPU, a piece at a time."""

    def __init__(self, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> None:
        super().__init__(settings, learner, rank, device, _connect)


def _connect(client: EnginesClient, source: LearnerSource, rank: int) -> Sender:
    info = IPCTrainerInitInfo(rank=rank, packed=True)
    sender: Sender = WeightTransferTrainerFactory.trainer_init(info, client=client, source=source)
    return sender
