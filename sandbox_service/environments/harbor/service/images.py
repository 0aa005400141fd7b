"""The image of a task: what it is built from, named by a digest of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sandbox_service.environments.base import TaskImage

from .task_files import content_digest

if TYPE_CHECKING:
    from .tasks import HarborTask


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
    parts = (dockerfile, environment.workdir or "", "" if context is None else content_digest(context))
    return TaskImage(
        task_id=task.id,
        digest=hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16],
        context=context,
        dockerfile=dockerfile,
        workdir=environment.workdir,
        timeout_s=environment.build_timeout_sec,
        reason=task.why_image,
        resources=task.resources,
    )
