"""The image in which the separate tests of a step run, where it is another one than the agent's.

It brings the tests: an image that ``[verifier.environment]`` names, or one that is built from the folder of
the tests; of the step's own, or of the task's. Source of the rules: Harbor 0.25.0,
``harbor/models/task/verifier_mode.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .task_toml import TaskRefused, VerifierTable

if TYPE_CHECKING:
    from .task_toml import EnvironmentTable, StepTable, TaskToml

_DOCKERFILE = "Dockerfile"
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml")


@dataclass(frozen=True, slots=True)
class VerifierImage:
    """An image that brings tests."""

    source: Path | str
    """The folder of its Dockerfile, or its name."""
    environment: EnvironmentTable
    """Needs of its boxes, and their variables."""
    why: str
    """The key or file that asks for it."""


@dataclass(frozen=True, slots=True)
class VerifierPlace:
    """The place where the tests of a step run."""

    is_separate: bool = False
    """They see the artifacts only."""
    environment: EnvironmentTable | None = None
    """The environment that separate tests declare, in place of the task's."""
    image: VerifierImage | None = None
    """The image that brings them; None where they run in the environment of the agent."""


def verifier_place(task: Path, toml: TaskToml, step: StepTable | None, own: Path) -> VerifierPlace:
    """Return where the tests of a step run; None is the only step of a task without ``[[steps]]``.

    ``task`` is the task's folder, and ``own`` the step's. Raises TaskRefused.
    """
    levels = [(toml.verifier, task)] if step is None else [(step.verifier, own), (toml.verifier, task)]
    if not _is_separate([table for table, _ in levels]):
        return VerifierPlace()
    declared = next((table.environment for table, _ in levels if table.environment is not None), None)
    environment = declared or toml.environment
    for table, folder in levels:
        tests = folder / "tests"
        named = None if table.environment is None else table.environment.docker_image
        if named is not None:
            why = f"verifier.environment.docker_image {named}"
            return VerifierPlace(True, declared, VerifierImage(named, environment, why))
        _refuse_compose(tests)
        if (tests / _DOCKERFILE).is_file():
            why = (tests / _DOCKERFILE).relative_to(task).as_posix()
            return VerifierPlace(True, declared, VerifierImage(tests, environment, why))
    if declared is not None and declared.workdir not in (None, toml.environment.workdir):
        raise TaskRefused(
            "verifier.environment.workdir differs from environment.workdir, and the verifier has no image of "
            "its own (verifier.environment.docker_image, tests/Dockerfile)"
        )
    return VerifierPlace(True, declared)


def _is_separate(tables: list[VerifierTable]) -> bool:
    """Return whether tests see the artifacts only: the first table that says anything decides."""
    for table in tables:
        if table.environment_mode is not None or table.environment is not None:
            return table.is_separate
    return False


def _refuse_compose(tests: Path) -> None:
    for name in _COMPOSE:
        if (tests / name).exists():
            raise TaskRefused(f"{tests.name}/{name} is not supported: a verifier has one container")
