"""The learner's state in a folder, written by all ranks together and read by any number of them.

Tensors go through torch.distributed.checkpoint, each rank writing its shards. Beside them are a JSON file
with what is no tensor, by rank 0, and the random state of every rank. Weights that are not trained are not in
it: they are in the model's own folder.
"""

from __future__ import annotations

import json
import random
import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import async_save as save_tensors

from trainer.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from torch import Tensor

__all__ = [
    "LearnerNote",
    "TensorWriter",
    "read_note",
    "read_random",
    "read_tensors",
    "write_note",
    "write_random",
]

_NOTE = "learner.json"
_FORMAT = 1
_ALONE = "torch.distributed is disabled"


@dataclass(frozen=True, slots=True)
class LearnerNote:
    """What is no tensor."""

    optimizer: dict[str, Any]
    """The settings of the stage's optimizer."""
    steps: int
    """Of the stage."""
    done: int
    """Of them."""
    updates: int
    """Of the optimizer."""
    kl_coefficient: float
    world: int
    """Ranks that wrote it."""
    shapes: dict[str, list[int]]
    """Of all tensors."""
    format: int = _FORMAT


def write_note(folder: Path, note: LearnerNote) -> None:
    """Write the note."""
    (folder / _NOTE).write_text(json.dumps(asdict(note)), encoding="utf-8")


def read_note(folder: Path) -> LearnerNote:
    """Read the note. Raises CheckpointError."""
    try:
        note = LearnerNote(**json.loads((folder / _NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder} holds no checkpoint of a learner: {error}") from error
    if note.format != _FORMAT:
        raise CheckpointError(f"{folder} has format {note.format}, and {_FORMAT} is understood")
    return note


class TensorWriter:
    """Writes tensors while training goes on."""

    def __init__(self) -> None:
        """Collective: ranks talk about files in a group of their own, on CPUs."""
        self._group = dist.new_group(backend="gloo") if dist.is_initialized() else None

    def write(self, folder: Path, tensors: dict[str, Tensor]) -> Future[object]:
        """Copy this rank's part to host memory, and begin to write it; collective.

        The tensors may change as soon as this returns. The result is there when all ranks have written.
        """
        if self._group is None:  # filters are everybody's, so one for the writing thread alone cannot be
            warnings.filterwarnings("ignore", message=_ALONE)
        writing = save_tensors(
            tensors, checkpoint_id=folder, process_group=self._group, no_dist=self._group is None
        )
        return cast("Future[object]", writing)


def read_tensors(folder: Path, tensors: dict[str, Tensor], shapes: dict[str, list[int]]) -> None:
    """Read into tensors, which may be divided otherwise; collective. Raises CheckpointError."""
    here = {name: list(tensor.shape) for name, tensor in tensors.items()}
    if here != shapes:
        names = sorted(name for name in {*here, *shapes} if here.get(name) != shapes.get(name))
        raise CheckpointError(f"{folder} is of another model or configuration: {', '.join(names[:3])} differ")
    with _alone_is_meant():
        load_tensors(tensors, checkpoint_id=folder, no_dist=not dist.is_initialized())


def write_random(folder: Path, rank: int, device: torch.device) -> None:
    """Write this rank's random state: Python's, numpy's, torch's, and the device's."""
    name, keys, position, has_gauss, gauss = np.random.get_state()
    state = {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, gauss),
        "torch": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }
    torch.save(state, _random_file(folder, rank))


def read_random(folder: Path, rank: int, device: torch.device) -> None:
    """Go on from a rank's random state; a rank that there was none of keeps its own."""
    file = _random_file(folder, rank)
    if not file.exists():
        return
    state = torch.load(file, weights_only=True)
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if state["device"] is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)


def _random_file(folder: Path, rank: int) -> Path:
    return folder / f"random-{rank:05d}.pt"


@contextmanager
def _alone_is_meant() -> Iterator[None]:
    """Without its warning that there is one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_ALONE)
        yield
