"""One model over several ranks: DDP, where each has it whole, or FSDP2, where each has a part of each weight.

With one rank and no process group there is nothing to wrap, and everything here still works.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers.modeling_layers import GradientCheckpointingLayer

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config import LearnerConfig

    from .model import ActorCritic, TokenOutputs
    from .packing import MicroBatch

__all__ = ["Parallel", "full", "sum_over_ranks"]


class Parallel:
    """A model on its device and over its ranks, in the type it computes in."""

    def __init__(self, core: ActorCritic, config: LearnerConfig, device: torch.device, world: int) -> None:
        """Raises ConfigError when several ranks have no process group."""
        if world > 1 and not (dist.is_initialized() and dist.get_world_size() == world):
            raise ConfigError(f"{world} workers need a process group of that size")
        self.core = core
        self.device = device
        self.world = world
        half = config.dtype == "bfloat16" or (config.dtype == "auto" and device.type == "cuda")
        self._half = half
        self._ddp: DistributedDataParallel | None = None
        self.sharded = config.sharding == "fsdp2" and dist.is_initialized()
        if self.sharded:
            _shard(core, device, half=half)
            core.to(device)  # buffers; the weights are there
            return
        core.to(device)
        if world > 1:
            self._ddp = DistributedDataParallel(
                core, forward_sync_buffers=False, gradient_as_bucket_view=True
            )

    def __call__(self, micro: MicroBatch) -> TokenOutputs:
        """One forward pass; collective where weights are sharded or gradients are wanted."""
        outputs: TokenOutputs
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half and not self.sharded):
            outputs = (self._ddp or self.core)(micro)
        return outputs

    def accumulating(self, *, last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch: DDP exchanges gradients after the last one only.

        FSDP2 exchanges them every time, since what waits would be a whole gradient on every rank.
        """
        return nullcontext() if last or self._ddp is None else self._ddp.no_sync()

    def rest(self) -> None:
        """After a pass without gradients: let go of gathered weights, so that shards are left."""
        for module in self.core.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def full(tensor: Tensor) -> Tensor:
    """The whole of a tensor; collective where it is sharded."""
    if isinstance(tensor, DTensor):
        whole: Tensor = tensor.full_tensor()
        return whole
    return tensor.detach()


def sum_over_ranks(tensor: Tensor, world: int) -> Tensor:
    """The sum over all ranks, in place; collective."""
    if world > 1:
        dist.all_reduce(tensor)
    return tensor


def _shard(core: ActorCritic, device: torch.device, *, half: bool) -> None:
    """A group of weights for each decoder layer, and one for the rest, with tied weights in one group."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    layers = [module for module in core.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    if core.value_head is not None:
        fully_shard(core.value_head, mesh=mesh)  # in float32, always
    fully_shard(core, mesh=mesh, mp_policy=policy)
