"""The images of a task: what they are built from, named by a digest of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.environments.base import BoxResources, TaskImage

from .task_files import content_digest
from .tasks import resources_of

if TYPE_CHECKING:
    from .tasks import HarborTask, TaskStep


def image_of(task: HarborTask) -> TaskImage | None:
    """Return the image that a task asks for; None if our own box is enough. Raises OSError."""
    if task.recipe is not None:
        return None
    environment, context = task.toml.environment, task.context
    dockerfile = task.dockerfile
    if dockerfile is None:
        # As for a Dockerfile: the files of the folder, if there are any, lie in the working directory.
        lines = [f"FROM {environment.docker_image}"]
        if environment.workdir is not None:
            lines.append(f"WORKDIR {environment.workdir}")
        if context is not None:
            lines.append("COPY . .")
        dockerfile = "\n".join(lines) + "\n"
    return TaskImage(
        task_id=task.id,
        digest=_digest(dockerfile, environment.workdir, context),
        context=context,
        dockerfile=dockerfile,
        workdir=environment.workdir,
        timeout_s=environment.build_timeout_sec,
        reason=task.why_image,
        resources=task.resources,
    )


def verifier_image_of(task: HarborTask, step: TaskStep) -> TaskImage | None:
    """Return the image that brings a step's tests; None if they run in the agent's box. Raises OSError."""
    if (verifier := step.place.image) is None:
        return None
    environment, source = verifier.environment, verifier.source
    context = source if isinstance(source, Path) else None
    dockerfile = f"FROM {source}\n"
    if context is not None:
        dockerfile = (context / "Dockerfile").read_bytes().decode("utf-8", "replace")
    return TaskImage(
        task_id=task.id,
        digest=_digest(dockerfile, environment.workdir, context, "tests"),
        context=context,
        dockerfile=dockerfile,
        workdir=environment.workdir,
        timeout_s=environment.build_timeout_sec,
        reason=verifier.why,
        # Artifacts must find the room that they had in the box of the agent.
        resources=resources_of(environment).joined(BoxResources(storage_mib=task.resources.storage_mib)),
        holds_tests=True,
    )


def _digest(dockerfile: str, workdir: str | None, context: Path | None, *more: str) -> str:
    parts = (dockerfile, workdir or "", "" if context is None else content_digest(context), *more)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
