"""The Ray cluster of a run: the one that was named, or a local one that ends with the run."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import ray

from trainer.errors import TrainerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainer.config import RunConfig

__all__ = ["NAMESPACE", "gpus", "ray_cluster", "ray_logs", "wanted_cpus"]

NAMESPACE = "sandbox-trainer"

_TRIES = 3
"""Ray gives itself thirty seconds to start, which a busy machine may not have."""


@contextlib.contextmanager
def ray_cluster(config: RunConfig, object_store: int) -> Iterator[None]:
    """Be connected while the block runs; a local Ray has an object store of so many bytes.

    Raises TrainerError.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    for left in reversed(range(_TRIES)):
        try:
            _connect(config, object_store)
            break
        except Exception as error:  # Ray tells by a plain Exception that it was not up in time
            ray.shutdown()
            if not left:
                raise TrainerError(f"Ray did not start: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _connect(config: RunConfig, object_store: int) -> None:
    if config.ray.address is not None:
        ray.init(address=config.ray.address, namespace=NAMESPACE, log_to_driver=False)
        return
    ray.init(
        address="local",
        namespace=NAMESPACE,
        num_cpus=config.ray.cpus or max(os.cpu_count() or 1, wanted_cpus(config)),
        include_dashboard=False,
        object_store_memory=object_store,
        log_to_driver=False,
        configure_logging=False,
    )


def wanted_cpus(config: RunConfig) -> int:
    """CPUs that a run's engines and workers reserve; a smaller machine shares its own among them."""
    learner, engine = config.learner, config.engine
    return math.ceil(engine.count * engine.cpus + learner.most_workers * learner.cpus)


def ray_logs() -> Path:
    """Where Ray keeps what processes on this machine wrote to their terminals."""
    context = ray.get_runtime_context()
    return Path(context.get_temp_dir()) / context.get_session_name() / "logs"


def gpus() -> float:
    """How many GPUs the cluster has."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("GPU", 0.0)
