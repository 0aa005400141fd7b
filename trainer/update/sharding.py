"""Distribute one model over several ranks: replicated (DDP) or with sharded weights (FSDP2).

With one rank and no process group nothing is wrapped, and the interface is the same.
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


class Parallel:
    """A model on its device, distributed over ranks, in its precision of computation."""

    def __init__(self, core: ActorCritic, config: LearnerConfig, device: torch.device, mesh: Mesh) -> None:
        """Wrap the model; collective. Raises ConfigError when rows cannot be divided as configured."""
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
            # Sharded while empty and filled afterwards, so that no rank ever holds more than its part.
            _shard(core, mesh.for_weights(device.type), device, half=half, offload=offload)
            fill(core, device, torch.device("cpu") if offload else device)
            return
        fill(core, device, device)
        # A model that is only scored has no gradients to reduce, and DDP refuses it.
        if mesh.world > 1 and any(parameter.requires_grad for parameter in core.parameters()):
            # Buffers are the same on all ranks; gradients that are views of the buckets save a copy of them.
            self._ddp = DistributedDataParallel(
                core, forward_sync_buffers=False, gradient_as_bucket_view=True
            )
            _fill_buckets(self._ddp)

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.mesh.world

    @property
    def half(self) -> bool:
        """Whether the model computes in bfloat16."""
        return self._half

    @property
    def counts(self) -> bool:
        """Whether this rank's results count, as one of the ranks that share its rows."""
        return self.mesh.context_rank == 0

    def __call__(self, micro: MicroBatch) -> TokenOutputs:
        """Run one forward pass; collective where weights are sharded, rows divided, or gradients needed."""
        context = self._context
        with self._precision(), self._saving():
            mine = micro if context is None else context.part(micro)
            outputs: TokenOutputs = (self._ddp or self.core)(mine)
        return outputs if context is None or micro.wants_logits else context.whole(outputs, micro)

    def _saving(self) -> AbstractContextManager[object]:
        """Return the context that decides where activations for the backward pass are kept."""
        if self._keeps_activations or not torch.is_grad_enabled():
            return nullcontext()
        return torch.autograd.graph.save_on_cpu(pin_memory=self.device.type == "cuda")

    def _precision(self) -> AbstractContextManager[None]:
        """Return autocast to bfloat16, or a null context: a float32 model leaves the precision to the
        caller.
        """
        if self._half and not self.sharded:
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def accumulating(self, *, last: bool) -> AbstractContextManager[None]:
        """Wrap forward and backward of a micro-batch, so that DDP reduces gradients only after the last one.

        FSDP2 reduces them over the shards of a copy every time, since accumulating locally would take an
        unsharded gradient on every rank; copies, which may be on other nodes, reduce theirs after the last
        one.
        """
        if self.sharded and isinstance(self.core, FSDPModule):
            self.core.set_requires_all_reduce(last)
        return nullcontext() if last or self._ddp is None else self._ddp.no_sync()

    def clear_gradients(self) -> None:
        """Clear the gradients. Those in DDP's buckets stay there: others would be a copy beside them."""
        for parameter in self.core.parameters():
            if self._ddp is None:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def rest(self) -> None:
        """Reshard FSDP modules after a forward pass without backward, which would otherwise stay gathered."""
        for module in self.core.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def _fill_buckets(ddp: DistributedDataParallel) -> None:
    """Have DDP make all gradients as views of its buckets, which it does not change afterwards; collective.

    DDP orders its buckets after the first backward pass and holds the former ones meanwhile. Here that pass
    is one over all parameters without the model, while there are no moments and no activations yet.
    """
    parameters = [parameter for parameter in ddp.parameters() if parameter.requires_grad]
    ddp.reducer.prepare_for_forward()
    ddp.reducer.prepare_for_backward([])
    torch.stack([parameter.sum() for parameter in parameters]).sum().backward()  # type: ignore[no-untyped-call]
    ddp.reducer._rebuild_buckets()  # noqa: SLF001 - only a forward pass of the model does it otherwise
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()


def full(tensor: Tensor) -> Tensor:
    """Return a tensor unsharded; collective where it is sharded.

    Shards on the CPU are gathered on the device, where ranks can communicate.
    """
    if isinstance(tensor, DTensor):
        part = cast("DTensor", tensor.to(tensor.device_mesh.device_type))
        whole: Tensor = part.full_tensor()
        return whole
    return tensor.detach()


def sum_over_ranks(tensor: Tensor, world: int) -> Tensor:
    """Sum over all ranks, in place; collective."""
    if world > 1:
        dist.all_reduce(tensor)
    return tensor


def _shard(core: ActorCritic, mesh: DeviceMesh, device: torch.device, *, half: bool, offload: bool) -> None:
    """Shard the model: one FSDP group per decoder layer, and one for the rest, with tied weights in one
    group.
    """
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    pinned = device.type == "cuda"
    place = CPUOffloadPolicy(pin_memory=pinned) if offload else OffloadPolicy()
    layers = [module for module in core.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, offload_policy=place)
    if core.value_head is not None:
        fully_shard(core.value_head, mesh=mesh, offload_policy=place)  # always reduce gradients in float32
    fully_shard(core, mesh=mesh, mp_policy=policy, offload_policy=place)
