"""How the model is updated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sandbox_settings import Branch, Count, NonNegative, Positive, Seconds, Share

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
    moments: Literal["float32", "8bit"] = "float32"
    """Precision of Adam's two moments. 8bit needs the extra ``gpu``, and takes 2 bytes a weight in place of
    8."""


class LearnerConfig(Branch):
    """A Ray Train worker group."""

    workers: Positive | tuple[Positive, Positive] = 1
    """How many; a pair lets their number change while the run goes on."""
    cpus: NonNegative = 1.0
    """CPUs that Ray reserves for each worker."""
    gpus: NonNegative = 0.0
    """GPUs for each worker; a fraction where engines share it. Where a run says nothing of GPUs and vLLM's
    CUDA build is installed, it takes those of the machine."""
    sharding: Literal["ddp", "fsdp2"] = "ddp"
    """ddp: each worker holds the whole model. fsdp2: each holds a part of every weight."""
    replicas: Positive = 1
    """Copies of the model with fsdp2, each sharded over ``workers / replicas`` workers (HSDP). One a node
    keeps the gathering of weights inside of nodes."""
    context_parallel: Positive = 1
    """Workers that share the tokens of each row, for rows too long for one GPU; divides ``workers`` and the
    model's attention heads."""
    offload: Literal["none", "optimizer", "parameters"] = "none"
    """What waits in host memory while it is not used. optimizer: Adam's moments. parameters: weights and
    gradients, too, and Adam runs on the CPU; needs fsdp2."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the computation; auto: bfloat16 on a GPU, where weights stay in float32. Else float32."""
    optimizer: OptimizerConfig = OptimizerConfig()
    minibatches: Positive = 1
    """Optimizer steps a pass over the batch."""
    epochs: Positive = 1
    """Passes over the batch."""
    micro_batch_tokens: Positive = 8192
    """Tokens of one forward pass, on each worker."""
    logits_tokens: Positive = 1024
    """Tokens whose logits are there at a time; more are computed piece by piece, twice when learning."""
    layout: Literal["padded", "packed"] = "padded"
    """Rows side by side with padding, or one after another in one row, which attends within samples only."""
    gradient_checkpointing: bool = False
    """Keep the inputs of layers only, and compute the rest again in the backward pass."""
    offload_activations: bool = False
    """Keep those inputs in host memory; needs ``gradient_checkpointing``."""
    lora: LoraConfig | None = None
    threads: Positive = 1
    """Torch threads a worker on a CPU."""
    max_failures: int = 3
    """Restarts of the worker group in a run; -1: without end."""
    batch_timeout_s: Seconds = 1800.0
    """How long a step waits for its batch."""

    @property
    def least_workers(self) -> int:
        """How many there are at least."""
        return self.workers[0] if isinstance(self.workers, tuple) else self.workers

    @property
    def most_workers(self) -> int:
        """How many there are at most."""
        return self.workers[1] if isinstance(self.workers, tuple) else self.workers

    @model_validator(mode="after")
    def _ordered(self) -> LearnerConfig:
        if isinstance(self.workers, tuple) and self.workers[0] > self.workers[1]:
            raise ValueError("workers must be a number or a pair (least, most)")
        return self

    @model_validator(mode="after")
    def _divisible(self) -> LearnerConfig:
        """What each copy of the model and each group that shares rows must be made of."""
        unit = self.replicas * self.context_parallel
        if unit > 1 and isinstance(self.workers, tuple):
            raise ValueError("replicas and context_parallel need a fixed number of workers, and not a pair")
        if isinstance(self.workers, int) and self.workers % unit:
            raise ValueError(
                f"workers={self.workers} cannot be divided into replicas={self.replicas} times "
                f"context_parallel={self.context_parallel}; take a multiple of {unit}"
            )
        return self

    @model_validator(mode="after")
    def _goes_together(self) -> LearnerConfig:
        if self.replicas > 1 and self.sharding != "fsdp2":
            raise ValueError("replicas are copies of a sharded model; set sharding=fsdp2, or leave them out")
        if self.offload == "parameters" and self.sharding != "fsdp2":
            raise ValueError("offload=parameters needs sharding=fsdp2; offload=optimizer works with ddp")
        if self.offload != "none" and self.optimizer.moments == "8bit":
            raise ValueError("optimizer.moments=8bit stays on the GPU; take either it or offload")
        if self.offload_activations and not self.gradient_checkpointing:
            raise ValueError(
                "offload_activations moves the inputs of layers; it needs gradient_checkpointing=true"
            )
        return self


class CheckpointConfig(Branch):
    """What can be gone back to."""

    every: Positive = 10
    """Steps between checkpoints; there is always one at the end."""
    keep: Positive = 2
    export: bool = True
    """Write the model at the end in Hugging Face's format: names, files and precision of the one that the run
    began with, adapters merged."""
    export_every: Count = 0
    """Steps between exports to ``models/`` while the run goes on; 0: none."""
    export_keep: Positive | None = None
    """How many of those stay; all when missing."""
    export_adapter: bool = False
    """Write the LoRA adapter alone as well, in PEFT's format."""
    push_to: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")
    """Send each export to this repository of the Hugging Face hub, ``owner/name``; login by ``hf auth login``
    or HF_TOKEN."""
    push_private: bool = True
    """Make that repository a private one, if it is not there yet."""

    @model_validator(mode="after")
    def _exports(self) -> CheckpointConfig:
        if self.push_to is not None and not (self.export or self.export_every):
            raise ValueError("push_to sends exports, and there are none; set export=true or export_every")
        return self
