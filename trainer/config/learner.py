"""Settings of the learner: optimizer, parallelism, memory and checkpoints."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sandbox_settings import Branch, Count, FormerNames, NonNegative, Positive, Seconds, Share

from .model import LoraConfig
from .nodes import NodeResource

_Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(Branch):
    """AdamW and its schedule."""

    learning_rate: Annotated[float, Field(gt=0)] = 1e-6
    """Learning rate after the warm-up."""
    betas: tuple[_Decay, _Decay] = (0.9, 0.98)
    """Decay of Adam's two moments."""
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    """Added to the root of the second moment."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay of matrices."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Course of the learning rate after the warm-up, over the steps of the stage."""
    warmup_steps: Count = 0
    """Steps in which the learning rate rises from 0."""
    final_share: Share = 0.1
    """Final learning rate of linear and cosine, as a share of the initial one."""
    clip_norm: NonNegative = 1.0
    """Greatest norm of the gradient; 0 does not clip."""
    moments: Literal["float32", "8bit"] = "float32"
    """Precision of Adam's two moments. 8bit needs the extra ``gpu``, and takes 2 bytes a weight in place of
    8.
    """

    # Checkpoints keep these settings by themselves.
    former_names: ClassVar[FormerNames] = {"least": "final_share"}


class LearnerConfig(Branch):
    """The learner's Ray Train worker group."""

    workers: Positive | tuple[Positive, Positive] = 1
    """Number of workers; a pair (least, most) lets it change during the run."""
    cpus: NonNegative = 1.0
    """CPUs that Ray reserves for each worker."""
    node_resource: NodeResource | None = None
    """Custom resource of Ray that marks the nodes for workers; by default every node with room."""
    gpus: NonNegative = 0.0
    """GPUs for each worker; a fraction where engines share it. A run that does not set GPUs uses those of
    the machine when vLLM's CUDA build is installed.
    """
    sharding: Literal["ddp", "fsdp2"] = "ddp"
    """ddp: each worker holds the whole model. fsdp2: each holds a shard of every weight."""
    replicas: Positive = 1
    """Copies of the model with fsdp2, each sharded over ``workers / replicas`` workers (HSDP). One copy per
    node keeps all-gathers within nodes.
    """
    context_parallel: Positive = 1
    """Workers that share the tokens of each row, for rows too long for one GPU; divides ``workers`` and the
    model's attention heads."""
    offload: Literal["none", "optimizer", "parameters"] = "none"
    """State kept in host memory while not in use. optimizer: Adam's moments. parameters: weights and
    gradients, too, and Adam runs on the CPU; needs fsdp2.
    """
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation. auto: bfloat16 on a GPU, with weights in float32, and float32 on a CPU."""
    optimizer: OptimizerConfig = OptimizerConfig()
    minibatches: Positive = 1
    """Optimizer steps per pass over the batch."""
    epochs: Positive = 1
    """Passes over the batch."""
    micro_batch_tokens: Positive = 8192
    """Tokens of one forward pass, on each worker."""
    logits_tokens: Positive = 1024
    """Tokens whose logits exist at a time; more are computed in chunks, twice when learning."""
    layout: Literal["padded", "packed"] = "padded"
    """padded: one sequence a row. packed: all sequences in one row, with attention within sequences only."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of layers, and recompute activations in the backward pass."""
    offload_activations: bool = False
    """Keep those inputs in host memory; needs ``gradient_checkpointing``."""
    lora: LoraConfig | None = None
    threads: Positive = 1
    """Torch threads per worker on a CPU."""
    max_failures: int = 3
    """Limit of restarts of the worker group in a run; -1: unlimited."""
    batch_timeout_s: Seconds = 3600.0
    """Limit of the wait for a step's batch; ``rollout.stall_timeout_s`` ends it sooner without progress."""

    @property
    def least_workers(self) -> int:
        """Least number of workers."""
        return self.workers[0] if isinstance(self.workers, tuple) else self.workers

    @property
    def most_workers(self) -> int:
        """Greatest number of workers."""
        return self.workers[1] if isinstance(self.workers, tuple) else self.workers

    def check_offload(self, optimizer: OptimizerConfig, name: str) -> None:
        """Raise ValueError for an optimizer whose moments cannot be offloaded as configured."""
        if self.offload != "none" and optimizer.moments == "8bit":
            raise ValueError(
                f"{name}.moments=8bit keeps the moments on the GPU; use either it or learner.offload"
            )

    @model_validator(mode="after")
    def _ordered(self) -> LearnerConfig:
        if isinstance(self.workers, tuple) and self.workers[0] > self.workers[1]:
            raise ValueError("workers must be a number or a pair (least, most)")
        return self

    @model_validator(mode="after")
    def _divisible(self) -> LearnerConfig:
        """Return the factor that the number of workers has to be a multiple of."""
        unit = self.replicas * self.context_parallel
        if unit > 1 and isinstance(self.workers, tuple):
            raise ValueError("replicas and context_parallel need a fixed number of workers, not a pair")
        if isinstance(self.workers, int) and self.workers % unit:
            raise ValueError(
                f"workers={self.workers} cannot be divided into replicas={self.replicas} times "
                f"context_parallel={self.context_parallel}; take a multiple of {unit}"
            )
        return self

    @model_validator(mode="after")
    def _goes_together(self) -> LearnerConfig:
        if self.replicas > 1 and self.sharding != "fsdp2":
            raise ValueError(
                "replicas are copies of a sharded model; set sharding=fsdp2, or leave replicas out"
            )
        if self.offload == "parameters" and self.sharding != "fsdp2":
            raise ValueError("offload=parameters needs sharding=fsdp2; offload=optimizer works with ddp")
        self.check_offload(self.optimizer, "optimizer")
        if self.offload_activations and not self.gradient_checkpointing:
            raise ValueError(
                "offload_activations moves the inputs of layers, so it needs gradient_checkpointing=true"
            )
        return self


class CheckpointConfig(Branch):
    """Checkpoints and exports."""

    every: Positive = 10
    """Steps between checkpoints; there is always one at the end."""
    keep: Positive = 2
    """Number of checkpoints to keep."""
    export: bool = True
    """Write the model at the end in Hugging Face's format: names, files and precision of the one that the run
    began with, adapters merged."""
    export_every: Count = 0
    """Steps between exports to ``models/`` during the run, in stages that train the policy; 0: none."""
    export_keep: Positive | None = None
    """Number of those exports to keep; all by default."""
    export_adapter: bool = False
    """Write the LoRA adapter alone as well, in PEFT's format."""
    push_to: str | None = Field(default=None, pattern=r"^[\w.-]+/[\w.-]+$")
    """Push each export to this repository of the Hugging Face hub, ``owner/name``; login by ``hf auth
    login`` or HF_TOKEN.
    """
    push_private: bool = True
    """Create that repository as a private one, if it does not exist."""

    @model_validator(mode="after")
    def _exports(self) -> CheckpointConfig:
        if self.push_to is not None and not (self.export or self.export_every):
            raise ValueError("push_to pushes exports, but there are none; set export=true or export_every")
        return self
