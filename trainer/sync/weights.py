"""The learner's weights as engines take them: complete, in the engine's precision, and written to a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from trainer.published import Published, newest, note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from torch import Tensor

    from trainer.config.run import RunConfig
    from trainer.published import Device

__all__ = ["complete", "file_weights", "wire_dtype"]

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


def wire_dtype(config: RunConfig, device: Device) -> torch.dtype:
    """What the engines compute in, so that nothing more has to travel."""
    name = config.engine.dtype
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


def file_weights(folder: Path, version: int, weights: Iterable[tuple[str, Tensor]]) -> tuple[Path, int]:
    """Write a publication and name it the newest; the one before it stays for whoever is just reading it.

    Returns:
        The file, and its bytes.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"weights-{version}-{os.getpid()}.safetensors"
    fresh = path.with_suffix(".part")
    save_file(dict(_apart(weights)), fresh)
    fresh.replace(path)
    before = newest(folder)
    note(folder, Published(version, "weights", path))
    kept = {path, before.path} if before else {path}
    for old in folder.glob("weights-*"):
        if old not in kept:
            old.unlink(missing_ok=True)
    return path, path.stat().st_size


def _apart(weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """On the CPU, contiguous, and no two of them in the same memory, which the format does not have."""
    seen: set[int] = set()
    for name, tensor in weights:
        host = tensor.to("cpu").contiguous()
        if host.untyped_storage().data_ptr() in seen:
            host = host.clone()
        seen.add(host.untyped_storage().data_ptr())
        yield name, host
