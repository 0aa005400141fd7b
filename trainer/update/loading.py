"""Load weights from a pretrained folder into a model on the meta device, each rank its own shard.

The model is created on the meta device, sharded there, and filled in place: a rank never holds more than its
shard and the tensor that it is reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .model import ActorCritic
    from .naming import Portion
    from .pretrained import Reader


@torch.no_grad()
def fill(core: ActorCritic, device: torch.device, weights: torch.device) -> None:
    """Load into the model the weights of the folder that it was made for.

    Args:
        core: the model, sharded or not; tensors that are not on the meta device are only moved.
        device: where the model computes and keeps its buffers.
        weights: where weights are kept: the same device, or the CPU when they are offloaded between passes.
    """
    _allocate(core, device, weights)
    language = core.language
    tensors = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in language.state_dict(keep_vars=True).items()
        if ".lora_" not in name
    }
    with core.origin.files.opened() as reader:
        for portion in core.origin.naming.portions:
            _fill_portion(portion, tensors, reader)
    for tensor in (*language.parameters(), *tensors.values()):
        tensor._is_hf_initialized = True  # noqa: SLF001 - transformers' own mark
    language.initialize_weights()  # type: ignore[no-untyped-call]  # the rest: buffers that are in no file


def _allocate(core: nn.Module, device: torch.device, weights: torch.device) -> None:
    """Allocate tensors that are on the meta device and move the others; shared tensors stay shared."""
    fresh: dict[int, nn.Parameter] = {}
    for module in core.modules():
        for name, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(parameter) not in fresh:
                fresh[id(parameter)] = _allocated(parameter, weights)
            setattr(module, name, fresh[id(parameter)])
        for name, buffer in list(module.named_buffers(recurse=False)):
            moved = torch.empty_like(buffer, device=device) if buffer.is_meta else buffer.to(device)
            setattr(module, name, moved)


def _allocated(parameter: nn.Parameter, device: torch.device) -> nn.Parameter:
    if not parameter.is_meta:
        if not isinstance(parameter, DTensor):  # a DTensor's shard lives on the device of its mesh
            parameter.data = parameter.data.to(device)
        return parameter
    return torch.nn.Parameter(torch.empty_like(parameter, device=device), parameter.requires_grad)


def _fill_portion(portion: Portion, tensors: Mapping[str, Tensor], reader: Reader) -> None:
    if portion.converter is None:
        (key,), (name,) = portion.keys, portion.names
        place = tensors[name]
        if isinstance(place, DTensor):
            local = place.to_local()
            if local.numel():
                local.copy_(reader.part(key, _own_part(place)))
        else:
            place.copy_(reader.tensor(key))
        return
    # fused tensors are read unsharded, the experts of one layer at a time
    for name, tensor in portion.inward({key: reader.tensor(key) for key in portion.keys}).items():
        place = tensors[name]
        if isinstance(place, DTensor):
            place.to_local().copy_(tensor[_own_part(place)])
        else:
            place.copy_(tensor)


def _own_part(place: DTensor) -> tuple[slice, ...]:
    """Return the slice of the unsharded tensor that this rank holds."""
    sizes, starts = compute_local_shape_and_global_offset(place.shape, place.device_mesh, place.placements)
    return tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
