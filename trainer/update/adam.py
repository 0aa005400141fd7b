"""AdamW (Loshchilov and Hutter 2019), with a choice of where its moments are kept and in which precision.

Moments exist from construction, so that a checkpoint can be loaded into them. Checkpoints hold them in
float32 regardless of how they are kept, so that a run can resume with another precision, another placement
or another number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.distributed.tensor import DTensor

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

    from trainer.config import OptimizerConfig


Groups = list[dict[str, object]]
"""Parameter groups as torch's optimizers take them: parameters with a learning rate and a weight decay."""

MOMENTS = ("exp_avg", "exp_avg_sq")
EIGHT_BIT_BLOCK = 256
"""Numbers that share one scale."""
EIGHT_BIT_LEAST = 4096
"""Least size of a tensor for which quantisation pays off."""
SLICE_BYTES = 256 << 20
"""Number of moments on the device at a time, of those that are kept in host memory."""


def check_moments(config: OptimizerConfig) -> None:
    """Raise ConfigError for moments in 8 bits without torchao."""
    if config.moments == "8bit":
        _eight_bit_class()


def _eight_bit_class() -> Any:  # noqa: ANN401 - torchao has no types
    try:
        from torchao.optim import AdamW8bit
    except ImportError as error:
        raise ConfigError(
            "optimizer.moments=8bit needs the package torchao: pip install 'training-sandbox[gpu]'"
        ) from error
    return AdamW8bit


class Adam:
    """Keep the moments in float32, next to the weights."""

    def __init__(self, groups: Groups, config: OptimizerConfig) -> None:
        self.wrapped: torch.optim.Optimizer = torch.optim.AdamW(
            groups, betas=config.betas, eps=config.epsilon, fused=True
        )
        """The optimizer of torch or torchao; ``WaitingAdam`` has one for each slice instead."""
        for parameter in self._parameters():
            self.wrapped.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                **{name: torch.zeros_like(parameter) for name in MOMENTS},
            }

    def step(self, factor: float) -> None:
        """Apply the gradients, with each group's learning rate multiplied by ``factor``."""
        for group in self.wrapped.param_groups:
            group["lr"] = group["base_rate"] * factor
        self.wrapped.step()

    def moments(self, parameter: Parameter) -> dict[str, Tensor]:
        """Return both moments of a parameter, to be saved, or to be read into for ``load_moments``."""
        return {name: self.wrapped.state[parameter][name] for name in MOMENTS}

    def load_moments(self, parameter: Parameter, moments: dict[str, Tensor]) -> None:
        """Replace the moments with these."""
        for name, moment in moments.items():
            kept = self.wrapped.state[parameter][name]
            if kept is not moment:
                kept.copy_(moment)

    @property
    def updates(self) -> int:
        """Number of updates applied so far."""
        return int(self.wrapped.state[next(self._parameters())]["step"])

    @updates.setter
    def updates(self, count: int) -> None:
        for parameter in self._parameters():
            self.wrapped.state[parameter]["step"].fill_(count)

    def _parameters(self) -> Iterator[Parameter]:
        for group in self.wrapped.param_groups:
            yield from group["params"]


class WaitingAdam(Adam):
    """Keep float32 moments in host memory and copy them to the device a few at a time."""

    def __init__(self, groups: Groups, config: OptimizerConfig) -> None:
        self._slices = [
            torch.optim.AdamW([{**group, "params": part}], betas=config.betas, eps=config.epsilon, fused=True)
            for group in groups
            for part in _slices(cast("Sequence[Parameter]", group["params"]))
        ]
        self._waiting = {
            parameter: {name: _in_host_memory(torch.zeros_like(parameter)) for name in MOMENTS}
            for group in groups
            for parameter in cast("Sequence[Parameter]", group["params"])
        }
        self._updates = 0

    def step(self, factor: float) -> None:
        for adam in self._slices:
            (group,) = adam.param_groups
            group["lr"] = group["base_rate"] * factor
            for parameter in group["params"]:
                here = {
                    name: moment.to(parameter.device, non_blocking=True)
                    for name, moment in self._waiting[parameter].items()
                }
                step = torch.full((), float(self._updates), device=parameter.device)
                adam.state[parameter] = {"step": step, **here}
            adam.step()
            for parameter in group["params"]:
                self.load_moments(parameter, {name: adam.state[parameter][name] for name in MOMENTS})
            adam.state.clear()
        self._updates += 1

    def moments(self, parameter: Parameter) -> dict[str, Tensor]:
        return dict(self._waiting[parameter])

    def load_moments(self, parameter: Parameter, moments: dict[str, Tensor]) -> None:
        for name, moment in moments.items():
            _local(self._waiting[parameter][name]).copy_(_local(moment))

    @property
    def updates(self) -> int:
        return self._updates

    @updates.setter
    def updates(self, count: int) -> None:
        self._updates = count


class EightBitAdam(Adam):
    """Keep the moments in 8 bits with a scale for each block (Dettmers et al. 2022), as torchao implements
    it.

    Tensors that are small, or whose size is not a multiple of the block, stay in float32.
    """

    def __init__(self, groups: Groups, config: OptimizerConfig) -> None:
        """Raise ConfigError when torchao is not installed."""
        # torchao keeps learning rates as tensors, and converts the rate of each group to one.
        kind = _eight_bit_class()
        self.wrapped = kind(groups, betas=config.betas, eps=config.epsilon, block_size=EIGHT_BIT_BLOCK)
        parameters = list(self._parameters())
        kept = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        # torchao creates moments in its first step. A step of zero size per parameter creates them early.
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
            self.step(0.0)
            parameter.grad = None
        for parameter, gradient in zip(parameters, kept, strict=True):
            parameter.grad = gradient
        self.updates = 0

    def step(self, factor: float) -> None:
        for group in self.wrapped.param_groups:
            group["lr"].fill_(cast("float", group["base_rate"]) * factor)
        on_cpu = next(self._parameters()).device.type == "cpu"
        # Compiled kernels are for GPUs; a CPU would need a C++ compiler for them.
        with torch.compiler.set_stance("force_eager" if on_cpu else "default"):
            self.wrapped.step()

    def moments(self, parameter: Parameter) -> dict[str, Tensor]:
        return {
            name: _in_host_memory(_dequantised(self.wrapped.state[parameter][name], parameter))
            for name in MOMENTS
        }

    def load_moments(self, parameter: Parameter, moments: dict[str, Tensor]) -> None:
        for name, moment in moments.items():
            kept: Any = _local(self.wrapped.state[parameter][name])
            numbers = _local(moment).to(kept.device)
            if hasattr(kept, "codes"):
                _quantise(numbers, kept.codes, kept.scale, kept.qmap)
            else:
                kept.copy_(numbers)


def _slices(parameters: Sequence[Parameter]) -> Iterator[list[Parameter]]:
    part: list[Parameter] = []
    used = 0
    for parameter in parameters:
        size = 8 * _local(parameter).numel()
        if part and used + size > SLICE_BYTES:
            yield part
            part, used = [], 0
        part.append(parameter)
        used += size
    if part:
        yield part


def _local(tensor: Tensor) -> Tensor:
    """Return this rank's shard."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor.detach()


def _in_host_memory(tensor: Tensor) -> Tensor:
    """Return the tensor in host memory, sharded as before, and page-locked where that speeds up copies."""
    return tensor.cpu() if isinstance(tensor, DTensor) or not tensor.is_cuda else tensor.cpu().pin_memory()


def _quantise(numbers: Tensor, codes: Tensor, scale: Tensor, values: Tensor) -> None:
    """Return the codes and scales from which the numbers were dequantised, or the nearest ones.

    torchao's own copy is not the inverse: its negative values end before -1, so that a block whose largest
    magnitude is negative would shrink with each save and load.
    """
    blocks = numbers.view(len(scale), -1)
    scales = blocks.amax(-1) / values[-1]
    if values[0] < 0:
        scales = torch.maximum(scales, blocks.amin(-1) / values[0])
    scale.copy_(scales.clamp(min=torch.finfo(torch.float32).tiny))
    between = (values[1:] + values[:-1]) / 2
    codes.copy_(torch.bucketize(blocks / scale[:, None], between).view_as(codes))


def _dequantised(moment: Tensor, like: Parameter) -> Tensor:
    """Return a moment in float32, sharded as its parameter is."""
    local = _local(moment)
    numbers = local.dequantize() if hasattr(local, "codes") else local.clone()
    if not isinstance(like, DTensor):
        return numbers
    return DTensor.from_local(
        numbers, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
