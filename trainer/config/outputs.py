"""Where a run tells what it does."""

from __future__ import annotations

from typing import Literal

from sandbox_settings import Branch, Positive

__all__ = ["RayConfig", "TrackingConfig"]


class TrackingConfig(Branch):
    """Metrics always go to ``metrics.jsonl`` in the run's folder."""

    tensorboard: bool = False
    wandb_project: str | None = None
    """Needs the package ``wandb`` and a login; offline by WANDB_MODE."""
    mlflow_uri: str | None = None
    """Needs the package ``mlflow-skinny``."""
    mlflow_experiment: str = "training-sandbox"
    report: bool = True
    """Write ``report.html`` at the end."""
    progress: bool = True
    """Progress bars, where there is a terminal."""
    trajectories: Literal["all", "scored", "none"] = "all"
    """What is kept for looking at, in ``trajectories.jsonl``."""


class RayConfig(Branch):
    """The Ray cluster."""

    address: str | None = None
    """``auto`` or an address; a local one is started when missing."""
    cpus: Positive | None = None
    """Of a local cluster; the machine's when missing, or as many as engines and workers ask for."""
    object_store_mib: Positive | None = None
    """Of a local cluster. When missing, as much as the largest batch needs on its way to the workers: 256 at
    least, and half of what is free in /dev/shm at most."""
