"""What a run writes: weight snapshots in shared memory, checkpoints and exports on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.model import PretrainedModel
from trainer.weight_sync.choice import resolve_transport

from .engine_memory import number_bytes

if TYPE_CHECKING:
    from trainer.config import RunConfig
    from trainer.update.memory import ModelShape
    from trainer.weight_sync.choice import Device


_MIB = 1 << 20
_SNAPSHOTS = 3
"""Files at the peak: the newest, the one before, which may be being read, and the one being written."""
_FLOAT32 = 4
_DISK_DTYPE = 2
"""Bytes of a weight in a folder from the hub: 16 bits."""
_CHANNELS = 64 * _MIB
"""Shared memory per process for NCCL, vLLM's workers and torch. An estimate."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes by purpose."""

    shared_memory: dict[str, int]
    disk: dict[str, int]


def storage_of(
    config: RunConfig,
    trained: ModelShape,
    base: ModelShape,
    device: Device,
    *,
    tied: bool,
    object_store: int,
) -> Storage:
    """Return the sizes at the peak.

    Args:
        config: the run's configuration.
        trained: the model with its adapter and critic.
        base: the model that engines sample from.
        device: what engines run on.
        tied: the output layer is the embedding, which a weight sync then holds twice.
        object_store: of Ray, where the run starts it.
    """
    shared = {} if config.ray.address else {"Ray's object store": object_store}
    disk: dict[str, int] = {}
    snapshot = _snapshot_bytes(config, base, device, tied=tied)
    if config.steps and snapshot:
        place = shared if config.sync.folder is None else disk
        place["weight snapshots"] = _SNAPSHOTS * snapshot
    processes = config.learner.most_workers + config.engine.count * config.engine.tensor_parallel
    if processes > 2:
        shared["channels between processes"] = processes * _CHANNELS
    # kept checkpoints and the one being written
    disk["checkpoints"] = (config.checkpoint.keep + 1) * checkpoint_bytes(config, trained)
    if config.checkpoint.export:
        disk["export"] = _DISK_DTYPE * base.parameters
    if isinstance(config.model, PretrainedModel) and not Path(config.model.path).expanduser().is_dir():
        disk["the model from the hub"] = _DISK_DTYPE * base.parameters
    return Storage(shared, disk)


def _snapshot_bytes(config: RunConfig, base: ModelShape, device: Device, *, tied: bool) -> int:
    """Bytes of a file with the weights; 0 where none is written, or an adapter alone."""
    transport = resolve_transport(config, device)
    if transport == "adapter" or (transport in ("nccl", "ipc") and not config.sync.recovery):
        return 0
    head = base.vocabulary * base.layer.hidden if tied else 0
    return number_bytes(config.engine.dtype, device) * (base.parameters + head)


def checkpoint_bytes(config: RunConfig, trained: ModelShape) -> int:
    """Return the bytes of trained weights, two moments and the reference, over all ranks, in float32."""
    tensors = 4 if config.algorithm.needs_reference else 3
    return _FLOAT32 * tensors * trained.trained
