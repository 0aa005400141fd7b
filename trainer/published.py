"""What the engines should be sampling with: medium, folder, and a small manifest of the newest weights.

The learner's side writes the manifest, and an engine that starts, or starts again, reads it. The manifest is
replaced in one piece, and the file that it names is complete before it is named.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from trainer.config.run import RunConfig

__all__ = [
    "PREFIX",
    "Device",
    "Medium",
    "Published",
    "clear",
    "newest",
    "note",
    "publications",
    "resolve_device",
    "resolve_medium",
    "shares_gpus",
    "spare_publications",
]

Device: TypeAlias = Literal["cpu", "cuda"]
Medium: TypeAlias = Literal["shared_file", "nccl", "ipc", "adapter"]

MANIFEST = "manifest.json"
SHARED_MEMORY = Path("/dev/shm")
PREFIX = "trainer-"


@dataclass(frozen=True, slots=True)
class Published:
    """One publication that lies on disk."""

    version: int
    kind: Literal["weights", "adapter"]
    path: Path
    """A safetensors file with all weights, or the folder of a LoRA adapter."""


def resolve_device(config: RunConfig) -> Device:
    """What engines run on: where the run leaves it open, what the learner runs on.

    The configuration alone decides, so that driver and workers, on whatever machines, decide alike.
    """
    if config.engine.device == "auto":
        return "cuda" if config.learner.gpus > 0 else "cpu"
    return config.engine.device


def resolve_medium(config: RunConfig, device: Device) -> Medium:
    """The way of the weights, where the run leaves it open."""
    if config.sync.medium != "auto":
        return config.sync.medium
    if device == "cpu" or config.learner.gpus == 0:
        # nccl and ipc have a GPU at both ends. Adapters work on a CPU too, at a quarter of the speed.
        return "shared_file"
    if config.learner.lora is not None:
        return "adapter"
    return "ipc" if shares_gpus(config, device) else "nccl"


def shares_gpus(config: RunConfig, device: Device) -> bool:
    """Whether each worker of the learner has an engine's worker beside it on its GPU.

    They do where their shares add up to one at most, which Ray counts in ten thousandths.
    """
    learner, engine = config.learner.gpus, config.engine.gpus
    if device == "cpu" or not config.steps or not learner or not engine:
        return False
    return round(learner + engine, 4) <= 1


def publications(config: RunConfig) -> Path:
    """The folder of a run's published weights; ``config.root`` has to be absolute, or the same everywhere."""
    base = config.sync.folder
    if base is None:
        base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    digest = hashlib.sha256(str(config.folder).encode()).hexdigest()[:10]
    return base / f"{PREFIX}{config.name}-{digest}"


def spare_publications(config: RunConfig) -> Path:
    """Where published weights lie when the folder of publications has no room for them: on the run's disk."""
    return config.folder / "published"


def newest(folder: Path) -> Published | None:
    """What was published last; None when nothing was."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return None
    return Published(version=found["version"], kind=found["kind"], path=Path(found["path"]))


def note(folder: Path, published: Published) -> None:
    """Make it the newest."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {"version": published.version, "kind": published.kind, "path": str(published.path)}
    fresh = folder / f"{MANIFEST}.{os.getpid()}"
    fresh.write_text(json.dumps(said))
    fresh.replace(folder / MANIFEST)


def clear(folder: Path) -> None:
    """Forget all publications, such as those of an earlier run of the same name."""
    shutil.rmtree(folder, ignore_errors=True)
