"""Settings of a run's outputs and of its Ray cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, JsonValue

from sandbox_plugins import PluginGroup
from sandbox_settings import Branch, Positive

from .plugins import REFERENCE, installed


class PluginTracker(Branch):
    """A tracker of an installed package."""

    kind: Annotated[str, AfterValidator(installed(PluginGroup.TRACKERS, ()))] = REFERENCE
    """The plugin's name, or ``module:name``."""
    options: dict[str, JsonValue] = {}
    """Keyword arguments of the class or function."""


class TrackingConfig(Branch):
    """Metrics always go to ``metrics.jsonl`` in the run's folder."""

    tensorboard: bool = False
    """Write the metrics for TensorBoard, to ``tensorboard/`` in the run's folder."""
    wandb_project: str | None = None
    """Project at Weights & Biases. Needs the package ``wandb`` and a login; WANDB_MODE=offline works without
    one.
    """
    mlflow_uri: str | None = None
    """Tracking URI of MLflow. Needs the package ``mlflow-skinny``."""
    mlflow_experiment: str = "training-sandbox"
    """Experiment of the run in MLflow."""
    plugins: tuple[PluginTracker, ...] = ()
    """Trackers of installed packages, each a table with ``kind`` and ``options`` (docs/plugins.md)."""
    report: bool = True
    """Write ``report.html`` at the end."""
    progress: bool = True
    """Show progress bars on a terminal."""
    trajectories: Literal["all", "scored", "none"] = "all"
    """The trajectories that are written to ``trajectories.jsonl`` for inspection; unless it is ``none``,
    ``advantages.jsonl`` has the advantages that they were trained with.
    """


class RayConfig(Branch):
    """The Ray cluster."""

    address: str | None = None
    """``auto`` or an address; a local cluster is started by default."""
    cpus: Positive | None = None
    """CPUs of a local cluster; by default those of the machine, or as many as engines and workers reserve.

    """
    object_store_mib: Positive | None = None
    """Object store of a local cluster. By default as large as the largest batch needs on its way to the
    workers: at least 256, and at most half of the free space in /dev/shm.
    """
