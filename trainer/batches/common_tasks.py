"""Tell tasks for training from those for evaluation, once the service has listed both; pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trainer.config.evaluation_splits import evaluation_splits, training_refusal
from trainer.config.without_effect import trained_and_held_out
from trainer.errors import DataError

if TYPE_CHECKING:
    from trainer.config import EvaluationConfig, TasksConfig, TaskSource

    from .events import TasksListed


def check_default_splits(listed: TasksListed, tasks: TasksConfig) -> None:
    """Refuse to train on a default split that is for evaluation, as its name in the run file is refused.

    Raises DataError.
    """
    if tasks.allow_evaluation_splits:
        return
    sources: tuple[TasksConfig | TaskSource, ...] = tasks.sources or (tasks,)
    for source in sources:
        of_source = [task.split for task in listed.tasks if task.environment == source.environment]
        if not source.splits and (found := evaluation_splits(source.environment, dict.fromkeys(of_source))):
            raise DataError(
                training_refusal(f"{', '.join(found)}, the default split of {source.environment},")
            )


def common_tasks(listed: TasksListed, tasks: TasksConfig, held: EvaluationConfig) -> str | None:
    """Return a warning about held-out tasks that are trained on under another split; None without any.

    A split that the run file names for both is left out: ``RunConfig.doubts`` warns of it before the start.
    """
    named = set(trained_and_held_out(tasks, held))
    trained: dict[tuple[str, str], set[str]] = {}
    for task in listed.tasks:
        trained.setdefault((task.environment, task.task_id), set()).add(task.split)
    shared = {
        (task.environment, task.task_id, task.split, split)
        for task in listed.held_out
        if (task.environment, task.split) not in named
        for split in trained.get((task.environment, task.task_id), ())
    }
    if not shared:
        return None
    counts = Counter((environment, split, other) for environment, _, split, other in shared)
    pairs = ", ".join(
        f"{count} of {environment}/{split} in {environment}/{other}"
        for (environment, split, other), count in sorted(counts.items())
    )
    number = len({task[:2] for task in shared})
    total = len({(task.environment, task.task_id) for task in listed.held_out})
    return (
        f"{number} of {total} held-out tasks are among the training tasks ({pairs}): success on them is that "
        "of training tasks, and says nothing about others; choose splits that have no task in common"
    )
