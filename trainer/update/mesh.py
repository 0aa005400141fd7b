"""Who is who among the ranks: copies of the model, parts of a copy, and parts of a row.

Ranks are numbered so that those that talk most stand together: the ranks that share a row are neighbours,
then come those that share a copy of the model, and copies come last. Weights are sharded over all ranks of a
copy, also over those that share rows.
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

__all__ = ["Mesh"]


@dataclass(frozen=True, slots=True)
class Mesh:
    """The place of one rank."""

    rank: int = 0
    world: int = 1
    replicas: int = 1
    """Copies of the model."""
    context: int = 1
    """Ranks that share the tokens of a row."""

    @classmethod
    def of(cls, config: LearnerConfig, rank: int, world: int) -> Mesh:
        """The mesh that a configuration asks for.

        Raises ConfigError when ``world`` ranks cannot be divided so, or have no process group.
        """
        unit = config.replicas * config.context_parallel
        if world % unit:
            raise ConfigError(
                f"{world} workers cannot be divided into replicas={config.replicas} times "
                f"context_parallel={config.context_parallel}"
            )
        if world > 1 and not (dist.is_initialized() and dist.get_world_size() == world):
            raise ConfigError(f"{world} workers need a process group of that size")
        return cls(rank, world, config.replicas, config.context_parallel)

    @property
    def shards(self) -> int:
        """Ranks that share one copy of the model."""
        return self.world // self.replicas

    @property
    def rows_rank(self) -> int:
        """Which part of the rows is this rank's; ranks of one context have the same."""
        return self.rank // self.context

    @property
    def rows_world(self) -> int:
        """Into how many parts rows are dealt."""
        return self.world // self.context

    @property
    def context_rank(self) -> int:
        """Which part of each row is this rank's."""
        return self.rank % self.context

    def for_weights(self, device: str) -> DeviceMesh:
        """Over which weights are sharded: (shards), or with copies (replicas, shards); collective."""
        if self.replicas == 1:
            return init_device_mesh(device, (self.shards,), mesh_dim_names=("shard",))
        return init_device_mesh(device, (self.replicas, self.shards), mesh_dim_names=("replicate", "shard"))

    def for_context(self, device: str) -> dist.ProcessGroup:
        """The ranks that share this rank's rows; collective."""
        grid = init_device_mesh(device, (self.rows_world, self.context), mesh_dim_names=("rows", "context"))
        return grid.get_group("context")
