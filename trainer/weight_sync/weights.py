"""The learner's weights as engines load them: complete, in their precision, in a snapshot file."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch

from trainer.errors import ConfigError
from trainer.weight_sync.snapshots import WeightSnapshot, newest_snapshot, note_snapshot

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from trainer.config.parts import Hardware
    from trainer.weight_sync.choice import Device


logger = logging.getLogger(__name__)

Free: TypeAlias = Callable[[Path], int]

GIB = 1 << 30
RESERVE_BYTES = 16 << 20
PIECE_BYTES = 256 << 20
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


class WeightOwner(Protocol):
    """The learner, as a weight sync uses it. All methods are collective."""

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield all weights, unsharded, under Hugging Face's names and always in the same order."""
        ...

    def probe(self, sequences: Sequence[tuple[int, ...]]) -> Sequence[np.ndarray]:
        """Return the log-probability of each token given those before it; the first one has no meaning."""
        ...

    def adapter(self, folder: Path) -> None:
        """Write the LoRA adapter in peft's format, on rank 0."""
        ...


def wire_dtype(hardware: Hardware, device: Device) -> torch.dtype:
    """Return the precision that engines compute in, in which weights are sent."""
    name = hardware.engine.dtype
    if name == "auto":
        name = "float32" if device == "cpu" else "bfloat16"
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} is not a dtype of torch")
    return found


def complete(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Yield weights in ``dtype``, with the output head by name also where it is tied to the embedding.

    An engine on a CPU keeps a packed copy of the head, which changes only if the head is sent by name.
    """
    embedding: Tensor | None = None
    head = False
    for name, tensor in weights:
        sent = tensor.detach().to(dtype)
        if name == EMBEDDING:
            embedding = sent
        head = head or name == HEAD
        yield name, sent
    if embedding is not None and not head:
        yield HEAD, embedding


def piece_bytes(total: int, largest: int) -> int:
    """Return the bytes of GPU memory that weights pass through on their way to an engine on the same GPU.

    Args:
        total: bytes of all weights.
        largest: bytes of the largest tensor, which is not divided.
    """
    return max(largest, min(total, PIECE_BYTES))


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, which need not exist yet."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    return shutil.disk_usage(there).free


def file_weights(
    folder: Path, spare: Path, version: int, weights: Iterable[tuple[str, Tensor]], free: Free = free_bytes
) -> tuple[Path, int]:
    """Write a snapshot and record it as the newest; the one before is kept for engines that are reading it.

    Args:
        folder: the run's snapshots and their manifest, usually in shared memory.
        spare: a folder on disk, used if the first has no room.
        version: version of the weights.
        weights: all weights by name.
        free: returns the free bytes on the disk of a folder.

    Returns:
        The file and its size in bytes.

    Raises:
        ConfigError: neither folder has room.
        OSError: the file could not be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Room first: the folder is usually in memory, and holds two snapshots at most.
    before = newest_snapshot(folder)
    _forget(folder, spare, {before.path} if before else set())
    tensors = dict(_apart(weights))
    place = _with_room((folder, spare), sum(tensor.nbytes for tensor in tensors.values()), free)
    folder.mkdir(parents=True, exist_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"weights-{version}-{os.getpid()}.safetensors"
    # Renamed when it is complete, and noted after that: an engine may restart at any time.
    fresh = path.with_suffix(".part")
    try:
        save_file(tensors, fresh)
    except SafetensorError as error:
        raise OSError(f"{fresh} could not be written: {error}") from error
    fresh.replace(path)
    note_snapshot(folder, WeightSnapshot(version, "weights", path))
    return path, path.stat().st_size


def _with_room(places: Sequence[Path], size: int, free: Free) -> Path:
    """Return the first folder with room for a file and a reserve for other writers."""
    for place in places:
        if free(place) >= size + RESERVE_BYTES:
            return place
        logger.warning("%s has no room for weight snapshots of %.1f GiB", place, size / GIB)
    raise ConfigError(
        f"a weight snapshot takes {size / GIB:.1f} GiB, and neither "
        f"{' nor '.join(str(place) for place in places)} has room for it: set sync.folder to a folder with "
        "room, or give the container more shared memory (docker run --shm-size)"
    )


def _forget(folder: Path, spare: Path, kept: set[Path]) -> None:
    for place in (folder, spare):
        for old in place.glob("weights-*"):
            if old not in kept:
                old.unlink(missing_ok=True)


def _apart(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Yield weights on the CPU, contiguous and without shared memory, which safetensors does not support."""
    seen: set[int] = set()
    for name, tensor in weights:
        host = tensor.to("cpu").contiguous()
        if host.untyped_storage().data_ptr() in seen:
            host = host.clone()
        seen.add(host.untyped_storage().data_ptr())
        yield name, host
