"""The learner's state in a folder, written by all ranks together and readable by any number of ranks.

Tensors go through torch.distributed.checkpoint, each rank writing its shards. Beside them, rank 0 writes a
JSON file with the other state, and every rank its random state. Weights that are not trained are not saved:
they are in the model's own folder.
"""

from __future__ import annotations

import io
import json
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import async_save as save_tensors

from trainer.durable_files import write_durably
from trainer.errors import CheckpointError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from torch import Tensor


_NOTE = "learner.json"
_FORMAT = 1
_ALONE = "torch.distributed is disabled"


@dataclass(frozen=True, slots=True)
class LearnerNote:
    """State of the learner other than tensors."""

    optimizer: dict[str, Any]
    """The settings of the stage's optimizer."""
    steps: int
    """Steps of the stage."""
    done: int
    """Steps of the stage that are done."""
    updates: int
    """Updates that the optimizer has applied."""
    kl_coefficient: float
    world: int
    """Number of ranks that wrote the checkpoint."""
    shapes: dict[str, list[int]]
    """Shapes of all tensors by name."""
    multipliers: dict[str, float] = field(default_factory=dict)
    """Lagrange multipliers of constrained costs; absent in checkpoints of earlier versions."""
    critic: bool = True
    """Whether the head is a critic, with its learning rate; absent in checkpoints of earlier versions, which
    took every head for one.
    """
    format: int = _FORMAT


def write_note(folder: Path, note: LearnerNote) -> None:
    """Write the note."""
    write_durably(folder / _NOTE, json.dumps(asdict(note)))


def read_note(folder: Path) -> LearnerNote:
    """Read the note. Raises CheckpointError."""
    try:
        note = LearnerNote(**json.loads((folder / _NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder} is not a learner checkpoint: {error}") from error
    if note.format != _FORMAT:
        raise CheckpointError(
            f"{folder} has checkpoint format {note.format}; this version reads format {_FORMAT}"
        )
    return note


class TensorWriter:
    """Write tensors while training continues."""

    def __init__(self) -> None:
        """Create a CPU process group of its own for coordination; collective."""
        self._group = dist.new_group(backend="gloo") if dist.is_initialized() else None

    def write(self, folder: Path, tensors: dict[str, Tensor]) -> Future[object]:
        """Copy this rank's shards to host memory and start writing them; collective.

        The tensors may change as soon as this returns. The checkpoint is complete when all ranks' results
        are there.
        """
        # Warning filters are global to the process; there is none for the writing thread alone.
        if self._group is None:
            warnings.filterwarnings("ignore", message=_ALONE)
        writing = save_tensors(
            tensors, checkpoint_id=folder, process_group=self._group, no_dist=self._group is None
        )
        return cast("Future[object]", writing)


def read_tensors(folder: Path, tensors: dict[str, Tensor], shapes: dict[str, list[int]]) -> None:
    """Read a checkpoint into tensors that may be sharded differently; collective. Raises CheckpointError."""
    here = {name: list(tensor.shape) for name, tensor in tensors.items()}
    if here != shapes:
        names = sorted(name for name in {*here, *shapes} if here.get(name) != shapes.get(name))
        raise CheckpointError(
            f"{folder} was written for another model or configuration: {', '.join(names[:3])} differ"
        )
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
    content = io.BytesIO()
    torch.save(state, content)
    write_durably(_random_file(folder, rank), content.getvalue())


def read_random(folder: Path, rank: int, device: torch.device) -> None:
    """Restore a rank's random state; a rank that the writer did not have keeps its own."""
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
    """Silence the warning that only one process takes part."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_ALONE)
        yield
