"""Copies of what an agent left: made when a step or the episode ends, for the tests.

Collect hooks run before each copy. Standard library only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .artifacts import pack_artifacts
from .collecting import collect, wanted_s
from .layout import pack
from .room import LEAST_ARCHIVE

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent
    from sandbox_service.wire.json_types import JsonObject

    from .step_tests import Work


_LONGEST_COPY_S = 60.0
_COPY_S = 5.0
"""Time for a copy of the least length that may be graded; longer ones have more in proportion."""
_SLOW = 3
"""Limit of what a copy may compute, in times of its time: a folder that takes more was made to do so."""
_LEAST_S = 1.0


class Copies:
    """The copies of one episode, which lie in the memory of its box."""

    def __init__(self, agent: Agent, task: JsonObject) -> None:
        self._agent = agent
        self._all_bytes: int = task["all_archives_bytes"]
        self.works: list[Work | None] = []
        """The copies by step; None is too large."""
        self.present: list[Work | None] = []
        """The copy of the step that goes on, which an evaluation of parts has begun with."""
        self.failed_hooks: list[JsonObject] = []
        """Hooks that failed: step, number and exit code."""

    def reserved_s(self, step: JsonObject, timeout_s: float, *, ends: bool) -> float:
        """Return the part of a step's time for hooks and a copy; ``ends``: one may follow this action."""
        copy_s, hooks_s = _copy_s(step), wanted_s(step["collect"])
        if ends and (copy_s > _COPY_S or hooks_s > 0):
            return min(copy_s + hooks_s, timeout_s / (2 if hooks_s else 3))
        return min(_COPY_S, timeout_s / 6)

    def keep_copy(self, step: JsonObject, prologue: str, timeout_s: float) -> None:
        """Keep a copy of what the agent left in a step. Raises WorldError."""
        self.present.clear()
        self.works.append(self.copy_work(step, prologue, timeout_s))

    def keep_present(self, step: JsonObject, prologue: str, timeout_s: float) -> None:
        """Keep a copy of what a step has so far, instead of an earlier such copy. Raises WorldError."""
        # Before the next one is made: one may be an eighth of the box's memory.
        self.present.clear()
        self.present.append(self.copy_work(step, prologue, timeout_s))

    def copy_work(self, step: JsonObject, prologue: str, timeout_s: float) -> Work | None:
        """Run the hooks of a step; return a copy of what the agent and they have left. Raises WorldError."""
        deadline = time.monotonic() + timeout_s
        hooks_s = timeout_s - min(_copy_s(step), timeout_s / 2)
        failed = collect(self._agent, prologue, step["collect"], hooks_s)
        before = [hook for hook in self.failed_hooks if hook["step"] != step["name"]]
        self.failed_hooks = before + [{"step": step["name"], **hook} for hook in failed]
        left_s = deadline - time.monotonic()
        most_bytes = min(step["archive_bytes"], self._all_bytes - sum(map(_length, self.works)))
        if step["artifacts"] is not None:
            return pack_artifacts(self._agent, step["artifacts"], left_s, most_bytes, _SLOW * _copy_s(step))
        return copy_folders(self._agent, left_s, most_bytes, _SLOW * _copy_s(step))


def _copy_s(step: JsonObject) -> float:
    return _COPY_S * max(1.0, float(step["archive_bytes"] / LEAST_ARCHIVE))


def _length(work: Work | None) -> int:
    """Return the characters of a copy."""
    if isinstance(work, list):
        return sum(len(artifact["archive"]) for artifact in work)
    return len(work or "")


def copy_folders(
    agent: Agent, timeout_s: float, most_bytes: int = LEAST_ARCHIVE, own_s: float = _SLOW * _COPY_S
) -> str | None:
    """Return the agent's working directory as base64 of a tar.gz; None when it is longer than ``most_bytes``.

    So it is when it takes more than ``own_s`` without waits for a processor. One that the agent has made
    unreadable is empty. Raises WorldError: step_timeout when the machine is too busy to copy it within
    ``timeout_s``, sandbox_failed.
    """
    wall_s = max(_LEAST_S, min(_LONGEST_COPY_S, timeout_s))
    packed = agent.shell(pack(agent.workspace), min(own_s, wall_s), most_bytes, wall_s)
    if packed.truncated or packed.timed_out:
        return None
    if packed.exit_code is None:
        detail = f"the working directory could not be copied: {packed.output[-200:]}"
        raise WorldError(detail, BoxErrorCode.SANDBOX_FAILED)
    return packed.output if packed.exit_code == 0 else ""
