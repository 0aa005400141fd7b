"""The function that Ray Train calls in each worker of the learner's group, and its settings."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import ray.train

from trainer.tracking.logs import keep_log

from .final import final_error, noting_final

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings that the driver passes to the workers."""

    config: str
    """The run's configuration as JSON."""
    model: str
    """Folder of the model to start from."""
    folder: str
    """The run's folder."""
    batch_actor: str
    """Name of the batch actor."""
    namespace: str
    teacher: str | None = None
    """Folder of the teacher that the workers hold; None without one."""


def train_worker(settings: dict[str, WorkerSettings]) -> None:
    """Run one rank of a run, from the newest checkpoint to the last step."""
    given = settings["settings"]
    folder = Path(given.folder)
    # Ray Train starts workers again after every error, and this one would come again.
    if final_error(folder) is not None:
        return
    context = ray.train.get_context()
    rank = context.get_world_rank()
    keep_log(folder / "logs" / f"worker-{rank}.log")
    try:
        with noting_final(folder):
            # Loads torch, which Ray Train's controller, another importer of this module, does not need.
            from .worker import run_rank

            run_rank(given, rank, context.get_world_size())
    except Exception:
        logger.exception("rank %d exits", rank)
        raise
