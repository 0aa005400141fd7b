"""Size Ray's object store for a run that starts its own Ray; batches reach the workers through it."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import AutoConfig

from .machine import free_shared_memory

if TYPE_CHECKING:
    from trainer.config import RunConfig


_MIB = 1 << 20
_LEAST = 256 * _MIB
"""Results, requests and metrics pass through it as well."""
_SPARE = 1.25
"""Factor on a batch, for Ray's overhead and gaps between objects."""
_MOST = 0.5
"""Of what is free in /dev/shm, where weights lie, too."""
_TOKEN = 8
"""Bytes of a token sent to a worker: its id and a log-probability."""


def batch_bytes(config: RunConfig, context: int) -> int:
    """Return the bytes of a batch whose episodes all have ``context`` tokens; workers that share a row each
    fetch it.
    """
    episodes = config.rollout.groups * config.rollout.group_size
    return _TOKEN * episodes * context * config.learner.context_parallel


def object_store(config: RunConfig, context: int, shared_memory: int | None) -> int:
    """Return the bytes of the store: as configured, or as much as the largest batch needs.

    Args:
        config: the run's configuration.
        context: tokens of the longest conversation.
        shared_memory: free bytes in /dev/shm; None where unknown.
    """
    if config.ray.object_store_mib is not None:
        return config.ray.object_store_mib * _MIB
    wanted = ceil(_SPARE * batch_bytes(config, context) / _MIB) * _MIB
    if shared_memory is not None:
        wanted = min(wanted, int(_MOST * shared_memory))
    return max(_LEAST, wanted)


def object_store_here(config: RunConfig, model: Path) -> int:
    """Return ``object_store`` on this machine, for the model in a folder."""
    context = config.rollout.max_context_tokens or positions_of(model)
    return object_store(config, context, free_shared_memory())


def positions_of(folder: Path) -> int:
    """Return the number of positions of the model in a folder."""
    text = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    return int(text.max_position_embeddings)
