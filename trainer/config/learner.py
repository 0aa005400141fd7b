"""How the model is updated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .base import Branch, Count, NonNegative, Positive, Seconds, Share
from .model import LoraConfig

__all__ = ["CheckpointConfig", "LearnerConfig", "OptimizerConfig"]


class OptimizerConfig(Branch):
    """AdamW and its schedule."""

    learning_rate: Annotated[float, Field(gt=0)] = 1e-6
    betas: tuple[Share, Share] = (0.9, 0.98)
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: NonNegative = 0.0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: Count = 0
    least: Share = 0.1
    """Where linear and cosine end, as a share of the learning rate."""
    clip_norm: NonNegative = 1.0
    """Greatest norm of the gradient; 0 does not clip."""


class LearnerConfig(Branch):
    """A Ray Train worker group."""

    workers: Positive | tuple[Positive, Positive] = 1
    """How many; a pair lets their number change while the run goes on."""
    cpus: NonNegative = 1.0
    """CPUs that Ray reserves for each worker."""
    gpus: NonNegative = 0.0
    """GPUs for each worker; a fraction where engines share it."""
    sharding: Literal["ddp", "fsdp2"] = "ddp"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the computation; auto: bfloat16 on a GPU, where weights stay in float32. Else float32."""
    optimizer: OptimizerConfig = OptimizerConfig()
    minibatches: Positive = 1
    """Optimizer steps a pass over the batch."""
    epochs: Positive = 1
    """Passes over the batch."""
    micro_batch_tokens: Positive = 8192
    """Tokens of one forward pass."""
    layout: Literal["padded", "packed"] = "padded"
    """Rows side by side with padding, or one after another in one row, which attends within samples only."""
    gradient_checkpointing: bool = False
    lora: LoraConfig | None = None
    threads: Positive = 1
    """Torch threads a worker on a CPU."""
    max_failures: int = 3
    """Restarts of the worker group in a run; -1: without end."""
    batch_timeout_s: Seconds = 1800.0
    """How long a step waits for its batch."""

    @model_validator(mode="after")
    def _ordered(self) -> LearnerConfig:
        if isinstance(self.workers, tuple) and self.workers[0] > self.workers[1]:
            raise ValueError("workers must be a number or a pair (least, most)")
        return self


class CheckpointConfig(Branch):
    """What can be gone back to."""

    every: Positive = 10
    """Steps between checkpoints; there is always one at the end."""
    keep: Positive = 2
    export: bool = True
    """Write the model at the end in Hugging Face's format."""
