"""The texts of evaluation tasks, from a file or from a running service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_client import SandboxError
from trainer.errors import DataError, ServiceUnavailable

from .bad_rows import BadRows, RowError
from .decontamination import EvaluationTask
from .rows import file_rows

if TYPE_CHECKING:
    from sandbox_client import SandboxClient

_TEXTS = ("prompt", "question", "instruction", "text", "task")
_NAMES = ("task_id", "id", "item_id", "instance_id")


def tasks_of_file(path: Path) -> tuple[EvaluationTask, ...]:
    """Return the tasks of a file of rows with one of the columns ``prompt``, ``question``, ``instruction``,
    ``text`` and ``task``, such as a task file, or HumanEval's and MBPP's own. Raises DataError.
    """
    found: list[EvaluationTask] = []
    bad = BadRows()
    read = 0
    for number, row in file_rows(path):
        read += 1
        place = f"{path}:{number}"
        if isinstance(row, RowError):
            bad.add(place, str(row))
            continue
        columns = row if isinstance(row, dict) else {}
        text = next((columns[name] for name in _TEXTS if columns.get(name)), None)
        if not isinstance(text, str):
            bad.add(place, f"has no text in any of the columns {', '.join(_TEXTS)}")
            continue
        name = next((columns[name] for name in _NAMES if columns.get(name) is not None), place)
        environment = columns.get("environment")
        found.append(EvaluationTask(str(name), text, environment if isinstance(environment, str) else ""))
    bad.raise_any(read)
    if not found:
        raise DataError(f"{path}: the file has no tasks")
    return tuple(found)


def tasks_of_service(
    client: SandboxClient, environment: str, splits: Sequence[str]
) -> Iterator[EvaluationTask]:
    """Yield the tasks of splits as the service poses them: an instance is created and released for each.

    Raises ServiceUnavailable if the service fails or does not have the split.
    """
    for split in splits:
        try:
            for task_id in client.get_env_profile(environment, split).task_ids:
                created = client.create_instance(environment, task_id)
                client.release_instance(created.instance_id)
                said = (each.content or "" for each in created.observation.messages if each.role != "system")
                yield EvaluationTask(task_id, "\n".join(said), environment)
        except SandboxError as error:
            raise ServiceUnavailable(
                f"the tasks of {environment}, split {split}, cannot be read: {error}"
            ) from error
