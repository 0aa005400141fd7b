"""Run a task's collect hooks: commands that leave what its tests need when the agent has ended.

They run as the agent, on its files, before these are copied; no process of the agent's is alive then. A hook
that fails ends nothing, as in Harbor: the tests find out. Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent
    from sandbox_service.wire.json_types import JsonObject


_LEAST_S = 0.05


def wanted_s(hooks: Sequence[JsonObject]) -> float:
    """Return the seconds that hooks may take."""
    return sum(float(hook["timeout_s"]) for hook in hooks)


def collect(agent: Agent, prologue: str, hooks: Sequence[JsonObject], timeout_s: float) -> list[JsonObject]:
    """Run hooks in order, within ``timeout_s`` seconds in all, and return those that failed.

    ``prologue`` precedes each command. A failure is the hook's number, from 1, and its exit code, which is
    None where its time was used up or it was not run. Raises WorldError(step_timeout) on a busy machine.
    """
    end = time.monotonic() + timeout_s
    failures: list[JsonObject] = []
    for number, hook in enumerate(hooks, start=1):
        left_s = min(float(hook["timeout_s"]), end - time.monotonic())
        code = None
        if left_s >= _LEAST_S:
            code = agent.shell(f"{prologue}\n{hook['command']}", left_s).exit_code
        if code != 0:
            failures.append({"hook": number, "exit_code": code})
    return failures
