"""The optimizer of a stage: AdamW, its learning-rate schedule, and clipping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from .adam import MOMENTS, Adam, EightBitAdam, WaitingAdam
from .sharding import full

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

    from trainer.config import OptimizerConfig

    from .model import ActorCritic


def rate_factor(config: OptimizerConfig, step: int, steps: int) -> float:
    """Return the learning rate of a step as a share of the configured one: linear warm-up, then the
    schedule.

    Args:
        config: the optimizer's settings.
        step: completed steps, from 0.
        steps: steps of the whole stage.
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    progress = min(1.0, (step - config.warmup_steps) / max(1, steps - config.warmup_steps))
    fall = progress if config.schedule == "linear" else (1 - math.cos(math.pi * progress)) / 2
    return 1.0 - (1.0 - config.final_share) * fall


class Optimizer:
    """AdamW over the trained parameters, for one stage. Vectors (biases, norms) have no weight decay."""

    def __init__(
        self,
        core: ActorCritic,
        config: OptimizerConfig,
        steps: int,
        value_rate: float | None = None,
        *,
        waiting: bool = False,
    ) -> None:
        """Create the optimizer; with ``waiting``, moments stay in host memory between updates. Raises
        ConfigError.
        """
        self.config = config
        self.steps = steps
        self.done = 0
        """Completed steps of the stage; a step may be several updates."""
        self.parameters: dict[str, Parameter] = {
            name: parameter for name, parameter in core.named_parameters() if parameter.requires_grad
        }
        kind = EightBitAdam if config.moments == "8bit" else WaitingAdam if waiting else Adam
        self.adam = kind(self._groups(value_rate), config)
        """Applies the gradients and keeps the moments."""

    def _groups(self, value_rate: float | None) -> list[dict[str, object]]:
        groups: dict[tuple[float, float], list[Parameter]] = {}
        for name, parameter in self.parameters.items():
            of_value = name.startswith("value_head.") and value_rate is not None
            rate = value_rate if of_value and value_rate is not None else self.config.learning_rate
            decay = self.config.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
        return [
            {"params": parameters, "lr": rate, "base_rate": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ]

    @property
    def rate(self) -> float:
        """Learning rate of the current step."""
        return self.config.learning_rate * rate_factor(self.config, self.done, self.steps)

    def step(self) -> float:
        """Clip and apply gradients; collective. Returns their norm before clipping.

        A norm that is not finite leaves the model unchanged.
        """
        most = self.config.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), most, foreach=True)
        value = float(full(norm))
        if math.isfinite(value):
            self.adam.step(rate_factor(self.config, self.done, self.steps))
        return value

    def moments(self) -> dict[str, Tensor]:
        """Return the state by parameter name, to be saved, or to be read into for ``load_moments``."""
        return {
            f"{moment}.{name}": tensor
            for name, parameter in self.parameters.items()
            for moment, tensor in self.adam.moments(parameter).items()
        }

    def load_moments(self, moments: Mapping[str, Tensor]) -> None:
        """Restore the state that ``moments`` returned and that was loaded into."""
        for name, parameter in self.parameters.items():
            self.adam.load_moments(parameter, {moment: moments[f"{moment}.{name}"] for moment in MOMENTS})

    @property
    def updates(self) -> int:
        """Number of updates applied so far."""
        return self.adam.updates

    @updates.setter
    def updates(self, count: int) -> None:
        self.adam.updates = count
