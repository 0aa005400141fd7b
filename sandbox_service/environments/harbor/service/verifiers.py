"""The image in which a task's separate tests run, where it is another one than the agent's.

It brings the tests: an image that ``[verifier.environment]`` names, or one that is built from the folder of
the tests. Source of the rules: Harbor 0.25.0, ``harbor/models/task/verifier_mode.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .task_toml import TaskRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .task_toml import EnvironmentTable, TaskToml

_DOCKERFILE = "Dockerfile"
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml")


@dataclass(frozen=True, slots=True)
class VerifierImage:
    """An image that brings a task's tests."""

    source: Path | str
    """The folder of its Dockerfile, or its name."""
    environment: EnvironmentTable
    """Needs of its boxes, and their variables."""

    @property
    def why(self) -> str:
        """Return why the task needs it."""
        if isinstance(self.source, str):
            return f"verifier.environment.docker_image {self.source}"
        return f"{self.source.name}/{_DOCKERFILE}"


def verifier_image(toml: TaskToml, tests: Path) -> VerifierImage | None:
    """Return the image of the tests of a task with one step; None where they run in the agent's environment.

    ``tests`` is the folder of the tests. Raises TaskRefused.
    """
    table = toml.verifier.environment
    if not toml.verifier.is_separate:
        return None
    if table is not None and table.docker_image is not None:
        return VerifierImage(table.docker_image, table)
    _refuse_compose(tests)
    if (tests / _DOCKERFILE).is_file():
        return VerifierImage(tests, table or toml.environment)
    if table is not None and table.workdir not in (None, toml.environment.workdir):
        raise TaskRefused(
            "verifier.environment.workdir differs from environment.workdir, and the verifier has no image of "
            "its own (verifier.environment.docker_image, tests/Dockerfile)"
        )
    return None


def refuse_images_of_steps(toml: TaskToml, tests: Iterable[Path]) -> None:
    """Raise TaskRefused if a task with several steps has tests with an image of their own."""
    tables = (toml.verifier, *(step.verifier for step in toml.steps))
    if any(table.environment is not None for table in tables):
        raise TaskRefused("verifier.environment is supported for tasks with one step only")
    if not any(table.is_separate for table in tables):
        return
    for folder in tests:
        _refuse_compose(folder)
        if (folder / _DOCKERFILE).is_file():
            raise TaskRefused(
                f"{folder.name}/{_DOCKERFILE} of separate tests is supported for tasks with one step only"
            )


def _refuse_compose(tests: Path) -> None:
    for name in _COMPOSE:
        if (tests / name).exists():
            raise TaskRefused(f"{tests.name}/{name} is not supported: a verifier has one container")
