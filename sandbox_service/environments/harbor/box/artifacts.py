"""Pack the artifacts of a task for a verifier in another box. Standard library only."""

from __future__ import annotations

import posixpath
import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .excluding import TAR_LISTED, listing

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent
    from sandbox_service.wire.json_types import JsonObject


FOLDER, FILE = "d", "f"
"""Kinds of artifacts: a folder's archive has its content, a file's the file itself."""
_LEAST_S = 1.0


def pack_artifacts(
    agent: Agent, artifacts: Sequence[JsonObject], timeout_s: float, most_bytes: int, own_s: float
) -> list[JsonObject] | None:
    """Return ``source``, ``kind`` and ``archive`` (a tar.gz as base64) of each artifact that is there.

    None if the archives are longer than ``most_bytes`` in all, take more than ``own_s`` without waits for a
    processor, or are not packed within ``timeout_s``. What ``exclude``, patterns of tar, matches in a folder
    is no part of it, and a link is no artifact. Raises WorldError: step_timeout when the machine is too busy,
    sandbox_failed.
    """
    deadline = time.monotonic() + max(_LEAST_S, timeout_s)
    packed: list[JsonObject] = []
    for artifact in artifacts:
        # No more once the time is used up, or many slow artifacts would outlast the step.
        left_s = deadline - time.monotonic()
        if left_s <= 0 or own_s <= 0:
            return None
        command = _command(agent.workspace, artifact["source"], artifact["exclude"])
        left = most_bytes - sum(len(each["archive"]) for each in packed)
        done = agent.shell(command, min(own_s, left_s), left, left_s)
        own_s -= done.duration_s - done.waited_s
        if done.truncated or done.timed_out:
            return None
        if done.exit_code is None:
            detail = f"an artifact could not be packed: {done.output[-200:]}"
            raise WorldError(detail, BoxErrorCode.SANDBOX_FAILED)
        kind, archive = done.output[:1], done.output[1:]
        # Nothing comes of a place that the agent has closed to itself.
        if kind in (FOLDER, FILE) and archive:
            packed.append({"source": artifact["source"], "kind": kind, "archive": archive})
    return packed


def _command(workspace: str, source: str, exclude: Sequence[str]) -> str:
    """Return the command that writes the kind of an artifact and its archive, or nothing."""
    place = shlex.quote(posixpath.join(workspace, source))
    folder, name = (shlex.quote(part) for part in posixpath.split(posixpath.join(workspace, source)))
    packed = "2>/dev/null | gzip -1 | base64 -w0"
    pack = f"tar -c -C {place} -f - . {packed}"
    if exclude:
        listed = shlex.join(listing(posixpath.join(workspace, source), exclude))
        pack = f"{listed} 2>/dev/null | {shlex.join(TAR_LISTED)} -C {place} -T - -f - {packed}"
    return (
        f"if [ -L {place} ]; then :; "
        f"elif [ -d {place} ]; then printf {FOLDER}; {pack}; "
        f"elif [ -f {place} ]; then printf {FILE}; tar -c -C {folder} -f - -- {name} {packed}; fi"
    )
