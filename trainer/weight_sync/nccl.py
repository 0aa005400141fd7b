"""Broadcast from the learner's GPU to the engines' GPUs, by vLLM's own transfer over NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo
from vllm.utils.network_utils import get_ip, get_open_port

from .gpu_transfer import GpuTransfer

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.weight_sync.choice import Device

    from .ends import WeightOwner
    from .gpu_transfer import Sender
    from .native import EnginesClient, LearnerSource


class Broadcast(GpuTransfer):
    """Rank 0 and all workers of all engines form one group; the learner's other ranks help to gather."""

    def __init__(self, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> None:
        super().__init__(settings, learner, rank, device, _connect)


def _connect(client: EnginesClient, source: LearnerSource, rank: int) -> Sender:
    info = NCCLTrainerInitInfo(
        master_address=get_ip(),
        master_port=get_open_port(),
        world_size=1 + sum(client.workers.values()),
        rank=rank,
    )
    sender: Sender = WeightTransferTrainerFactory.trainer_init(info, client=client, source=source)
    return sender
