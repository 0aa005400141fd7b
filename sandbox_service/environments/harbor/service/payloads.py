"""The data of a task that boxes are sent: with the instance, for its verifier, and with an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sandbox_service.environments.harbor.box.layout import WORKDIR
from sandbox_service.environments.harbor.box.room import LEAST_ARCHIVE

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import TaskFolderConfig

    from .task_files import TaskFile
    from .task_toml import Artifact
    from .tasks import HarborTask, TaskStep


_ARTIFACTS_BYTES = 24 * 1024**2
"""Characters that artifacts may have, packed, on their way to another box."""


def task_body(task: HarborTask, config: TaskFolderConfig, evaluate_s: float) -> dict[str, JsonValue]:
    """Return what the box of an instance is sent. Raises TaskRefused and OSError."""
    recipe = task.recipe
    memory_bytes = task.resources.memory_mib * 1024**2
    archive_bytes = max(LEAST_ARCHIVE, memory_bytes // 8)
    return {
        "category": task.toml.category,
        "info": {"network": "none", "evaluate_s": evaluate_s},
        "env": {**(recipe.variables if recipe is not None else {}), **task.toml.environment.env},
        "packages": bool(recipe is not None and recipe.packages),
        "image": recipe is None,
        "separate": any(step.place.is_separate and step.place.image is None for step in task.steps),
        "for_verifier": False,
        "files": _wire(task.files()),
        "steps": [_step(task, step, archive_bytes) for step in task.steps],
        "max_steps": config.max_steps,
        "tool_timeout_s": config.tool_timeout_s,
        "max_output_bytes": config.max_output_bytes,
        "archive_bytes": archive_bytes,
        "all_archives_bytes": max(2 * LEAST_ARCHIVE, memory_bytes // 8),
    }


def verifier_body(step: TaskStep, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return what the box of a step's verifier is sent: its image brings the files and the tests."""
    assert step.place.image is not None
    only: dict[str, JsonValue] = {"name": step.name, "files": {}, "collect": []}
    variables: dict[str, JsonValue] = dict(step.place.image.environment.env)
    own: dict[str, JsonValue] = {"env": variables, "image": True, "for_verifier": True, "files": {}}
    return {**body, **own, "packages": False, "steps": [only]}


def grading_body(task: HarborTask, reward_range: tuple[float, float]) -> dict[str, JsonValue]:
    """Return what a box is sent with the evaluation of a whole task. Raises TaskRefused and OSError."""
    return _body(task, reward_range, [_grading(task, step) for step in task.steps])


def verdict_body(task: HarborTask, reward_range: tuple[float, float]) -> dict[str, JsonValue]:
    """Return what makes one verdict of the results of the steps."""
    return _body(task, reward_range, [_outline(step) for step in task.steps])


def part_body(task: HarborTask, part: TaskStep, reward_range: tuple[float, float]) -> dict[str, JsonValue]:
    """Return what a box is sent with the evaluation of one step. Raises TaskRefused and OSError.

    The box of a verifier knows no other step.
    """
    if part.place.image is not None:
        return _body(task, reward_range, [_grading(task, part)])
    steps = [_grading(task, step) if step is part else _outline(step) for step in task.steps]
    return _body(task, reward_range, steps)


def _body(
    task: HarborTask, reward_range: tuple[float, float], steps: list[dict[str, JsonValue]]
) -> dict[str, JsonValue]:
    strategy = task.toml.multi_step_reward_strategy
    return {"strategy": strategy, "reward_range": list(reward_range), "steps": [*steps]}


def _step(task: HarborTask, step: TaskStep, archive_bytes: int) -> dict[str, JsonValue]:
    artifacts: list[JsonValue] | None = None
    if step.place.image is not None:
        artifacts = [{"source": "logs/artifacts", "exclude": []}, *map(_artifact, step.artifacts)]
        archive_bytes = _ARTIFACTS_BYTES
    return {
        "name": step.name,
        "instruction": step.instruction,
        "files": _wire(task.step_files(step)),
        "agent_timeout_s": step.agent.timeout_sec,
        "collect": [{"command": hook.command, "timeout_s": hook.timeout_sec} for hook in step.collect],
        "artifacts": artifacts,
        "archive_bytes": archive_bytes,
    }


def _outline(step: TaskStep) -> dict[str, JsonValue]:
    """Return what decides about a step whose result is known."""
    return {"name": step.name, "min_reward": dict(step.min_reward)}


def _grading(task: HarborTask, step: TaskStep) -> dict[str, JsonValue]:
    in_image = step.place.image is not None
    # In a box of their own, the tests have these from the start.
    beside = None if in_image else step.place.environment
    variables = {} if beside is None else beside.env
    return {
        **_outline(step),
        "files": {} if in_image else _wire(task.tests(step)),
        "tests_in_image": in_image,
        "env": {**variables, **step.verifier.env},
        "timeout_s": step.verifier.timeout_sec,
        "separate": step.place.is_separate,
        "artifacts": [_artifact(artifact) for artifact in step.artifacts],
    }


def _artifact(artifact: Artifact) -> JsonValue:
    """Return an artifact by its path below the task's folders."""
    source = artifact.source
    below = source.lstrip("/") if source.startswith("/") else f"{WORKDIR}/{source}"
    return {"source": below, "exclude": list(artifact.exclude)}


def _wire(files: Mapping[str, TaskFile]) -> dict[str, JsonValue]:
    return {path: file.wire() for path, file in files.items()}
