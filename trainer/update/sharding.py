"""One model over several ranks: DDP, where each has it whole, or FSDP2, where each has a part of each weight.

With one rank and no process group there is nothing to wrap, and everything here still works.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers.modeling_layers import GradientCheckpointingLayer

from .context import ContextGroup
from .language import computes_in_half
from .loading import fill

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.device_mesh import DeviceMesh

    from trainer.config import LearnerConfig

    from .mesh import Mesh
    from .model import ActorCritic, TokenOutputs
    from .packing import MicroBatch

__all__ = ["Parallel", "full", "sum_over_ranks"]


class Parallel:
    """A model on its device and over its ranks, in the type it computes in."""

    def __init__(self, core: ActorCritic, config: LearnerConfig, device: torch.device, mesh: Mesh) -> None:
        """Collective. Raises ConfigError when the model's rows cannot be divided as configured."""
        self.core = core
        self.device = device
        self.mesh = mesh
        half = computes_in_half(config, device)
        self._half = half
        self._keeps_activations = not config.offload_activations
        self._context: ContextGroup | None = None
        if mesh.context > 1:
            group = mesh.for_context(device.type)
            self._context = ContextGroup(group, mesh.context_rank, mesh.context)
            self._context.attach(core.language)
        self._ddp: DistributedDataParallel | None = None
        self.sharded = config.sharding == "fsdp2" and dist.is_initialized()
        if self.sharded:
            offload = config.offload == "parameters"
            _shard(core, mesh.for_weights(device.type), device, half=half, offload=offload)
            fill(core, device, torch.device("cpu") if offload else device)
            return
        fill(core, device, device)
        if mesh.world > 1:
            self._ddp = DistributedDataParallel(
                core, forward_sync_buffers=False, gradient_as_bucket_view=True
            )

    @property
    def world(self) -> int:
        """All ranks."""
        return self.mesh.world

    @property
    def half(self) -> bool:
        """It computes in bfloat16."""
        return self._half

    @property
    def counts(self) -> bool:
        """Whether this rank is the one that speaks for the ranks that share its rows."""
        return self.mesh.context_rank == 0

    def __call__(self, micro: MicroBatch) -> TokenOutputs:
        """One forward pass; collective where weights are sharded, rows divided, or gradients are wanted."""
        context = self._context
        with self._precision(), self._saving():
            mine = micro if context is None else context.part(micro)
            outputs: TokenOutputs = (self._ddp or self.core)(mine)
        return outputs if context is None else context.whole(outputs, micro)

    def _saving(self) -> AbstractContextManager[object]:
        """Where what the backward pass needs is kept."""
        if self._keeps_activations or not torch.is_grad_enabled():
            return nullcontext()
        return torch.autograd.graph.save_on_cpu(pin_memory=self.device.type == "cuda")

    def _precision(self) -> AbstractContextManager[None]:
        """A model that computes in float32 leaves it to the caller, who may want it in another one."""
        if self._half and not self.sharded:
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def accumulating(self, *, last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch: DDP exchanges gradients after the last one only.

        FSDP2 adds them up over the shards of a copy every time, since what waits would be a whole gradient on
        every rank; copies, which may be on other nodes, exchange theirs after the last one.
        """
        if self.sharded and isinstance(self.core, FSDPModule):
            self.core.set_requires_all_reduce(last)
        return nullcontext() if last or self._ddp is None else self._ddp.no_sync()

    def rest(self) -> None:
        """After a pass without gradients: let go of gathered weights, so that shards are left."""
        for module in self.core.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def full(tensor: Tensor) -> Tensor:
    """The whole of a tensor; collective where it is sharded.

    Parts that wait on the CPU are put together on the device, where ranks can talk.
    """
    if isinstance(tensor, DTensor):
        part = cast("DTensor", tensor.to(tensor.device_mesh.device_type))
        whole: Tensor = part.full_tensor()
        return whole
    return tensor.detach()


def sum_over_ranks(tensor: Tensor, world: int) -> Tensor:
    """The sum over all ranks, in place; collective."""
    if world > 1:
        dist.all_reduce(tensor)
    return tensor


def _shard(core: ActorCritic, mesh: DeviceMesh, device: torch.device, *, half: bool, offload: bool) -> None:
    """A group of weights for each decoder layer, and one for the rest, with tied weights in one group."""
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    pinned = device.type == "cuda"
    place = CPUOffloadPolicy(pin_memory=pinned) if offload else OffloadPolicy()
    layers = [module for module in core.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, offload_policy=place)
    if core.value_head is not None:
        fully_shard(core.value_head, mesh=mesh, offload_policy=place)  # in float32, always
    fully_shard(core, mesh=mesh, mp_policy=policy, offload_policy=place)
