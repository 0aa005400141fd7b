"""Positions of ranks: copies of the model, shards of a copy, and segments of a row.

Ranks that communicate most are neighbours: ranks that share a row come first, then those that share a copy
of the model, then copies. Weights are sharded over all ranks of a copy, including those that share rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from trainer.config import LearnerConfig


@dataclass(frozen=True, slots=True)
class Mesh:
    """The position of one rank."""

    rank: int = 0
    world: int = 1
    replicas: int = 1
    """Copies of the model."""
    context: int = 1
    """Ranks that share the tokens of a row."""

    @classmethod
    def of(cls, config: LearnerConfig, rank: int, world: int) -> Mesh:
        """Return the mesh of a configuration.

        Raises ConfigError when ``world`` ranks cannot be divided as configured, or have no process group.
        """
        unit = config.replicas * config.context_parallel
        if world % unit:
            raise ConfigError(
                f"learner.workers: {world} workers cannot be divided into "
                f"replicas={config.replicas} times context_parallel={config.context_parallel}"
            )
        if world > 1 and not (dist.is_initialized() and dist.get_world_size() == world):
            raise ConfigError(
                f"{world} workers need a process group of that size; initialise torch.distributed first"
            )
        return cls(rank, world, config.replicas, config.context_parallel)

    @property
    def shards(self) -> int:
        """Ranks that share one copy of the model."""
        return self.world // self.replicas

    @property
    def rows_rank(self) -> int:
        """The part of the rows that this rank computes; ranks of one context share it."""
        return self.rank // self.context

    @property
    def rows_world(self) -> int:
        """Number of parts into which rows are divided."""
        return self.world // self.context

    @property
    def context_rank(self) -> int:
        """The segment of each row that this rank computes."""
        return self.rank % self.context

    def for_weights(self, device: str) -> DeviceMesh:
        """Return the mesh to shard weights over: (shards), or (replicas, shards) with copies; collective."""
        if self.replicas == 1:
            return init_device_mesh(device, (self.shards,), mesh_dim_names=("shard",))
        return init_device_mesh(device, (self.replicas, self.shards), mesh_dim_names=("replicate", "shard"))

    def for_context(self, device: str) -> dist.ProcessGroup:
        """Return the group of ranks that share this rank's rows; collective."""
        grid = init_device_mesh(device, (self.rows_world, self.context), mesh_dim_names=("rows", "context"))
        return grid.get_group("context")
