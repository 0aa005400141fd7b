"""The learner's weights as engines take them: complete, in the engine's precision, and written to a file."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch

from trainer.errors import ConfigError
from trainer.weight_sync.snapshots import WeightSnapshot, newest_snapshot, note_snapshot

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.parts import Hardware
    from trainer.weight_sync.choice import Device


logger = logging.getLogger(__name__)

Free: TypeAlias = Callable[[Path], int]

GIB = 1 << 30
RESERVE_BYTES = 16 << 20
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


def wire_dtype(hardware: Hardware, device: Device) -> torch.dtype:
    """What the engines compute in, so that nothing more has to travel."""
    name = hardware.engine.dtype
    if name == "auto":
        name = "float32" if device == "cpu" else "bfloat16"
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name} is no dtype")
    return found


def complete(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Weights in ``dtype``, with the output head said apart where it is tied to the embedding.

    An engine on a CPU keeps a packed copy of the head, which stays as it was unless it is named.
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


def free_bytes(folder: Path) -> int:
    """Bytes that are free where a folder lies, or would lie."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    return shutil.disk_usage(there).free


def file_weights(
    folder: Path, spare: Path, version: int, weights: Iterable[tuple[str, Tensor]], free: Free = free_bytes
) -> tuple[Path, int]:
    """Write a snapshot and name it the newest; the one before it stays for an engine that is reading it.

    Args:
        folder: of the run's snapshots, with the manifest; in shared memory as a rule.
        spare: a folder on disk, which takes the file where the first has no room.
        version: of the weights.
        weights: all of them.
        free: bytes that are free where a folder lies.

    Returns:
        The file, and its bytes.

    Raises:
        ConfigError: neither folder has room; says how much it takes.
    """
    from safetensors.torch import save_file

    before = newest_snapshot(folder)
    _forget(folder, spare, {before.path} if before else set())
    tensors = dict(_apart(weights))
    place = _with_room((folder, spare), sum(tensor.nbytes for tensor in tensors.values()), free)
    folder.mkdir(parents=True, exist_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"weights-{version}-{os.getpid()}.safetensors"
    fresh = path.with_suffix(".part")
    save_file(tensors, fresh)
    fresh.replace(path)
    note_snapshot(folder, WeightSnapshot(version, "weights", path))
    return path, path.stat().st_size


def _with_room(places: Sequence[Path], size: int, free: Free) -> Path:
    """The first that a file fits into, with something to spare for others who write there."""
    for place in places:
        if free(place) >= size + RESERVE_BYTES:
            return place
        logger.warning("%s has no room for weight snapshots of %.1f GiB", place, size / GIB)
    raise ConfigError(
        f"weight snapshots take {size / GIB:.1f} GiB, and there is no room for them in "
        f"{' nor in '.join(str(place) for place in places)}: set sync.folder to a folder that has it, or "
        "give a container more shared memory (docker run --shm-size)"
    )


def _forget(folder: Path, spare: Path, kept: set[Path]) -> None:
    for place in (folder, spare):
        for old in place.glob("weights-*"):
            if old not in kept:
                old.unlink(missing_ok=True)


def _apart(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """On the CPU, contiguous, and no two of them in the same memory, which the format does not have."""
    seen: set[int] = set()
    for name, tensor in weights:
        host = tensor.to("cpu").contiguous()
        if host.untyped_storage().data_ptr() in seen:
            host = host.clone()
        seen.add(host.untyped_storage().data_ptr())
        yield name, host
