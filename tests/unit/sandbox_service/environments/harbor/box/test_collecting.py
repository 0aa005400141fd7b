from __future__ import annotations

from typing import Any

from sandbox_service.environments.harbor.box.collecting import collect, wanted_s
from sandbox_service.runner.world import Execution


class Shell:
    """An agent whose commands end as is asked, by their last line."""

    def __init__(self, **codes: int | None) -> None:
        self._codes = codes
        self.ran: list[tuple[str, float]] = []

    def shell(self, command: str, timeout_s: float) -> Execution:
        self.ran.append((command, timeout_s))
        return Execution("", self._codes.get(command.splitlines()[-1], 0))


def hooks(*commands: str, timeout_s: float = 3.0) -> list[dict[str, Any]]:
    return [{"command": command, "timeout_s": timeout_s} for command in commands]


def test_hooks_run_in_order_behind_the_tasks_prologue() -> None:
    shell = Shell()
    assert collect(shell, "cd /app", hooks("one", "two"), 60.0) == []  # type: ignore[arg-type]
    assert shell.ran == [("cd /app\none", 3.0), ("cd /app\ntwo", 3.0)]


def test_hooks_that_fail_are_named_and_the_others_run() -> None:
    shell = Shell(bad=2, late=None)
    failed = collect(shell, "", hooks("bad", "late", "good"), 60.0)  # type: ignore[arg-type]
    assert failed == [{"hook": 1, "exit_code": 2}, {"hook": 2, "exit_code": None}]
    assert len(shell.ran) == 3


def test_hooks_without_time_are_not_run() -> None:
    shell = Shell()
    assert collect(shell, "", hooks("one"), 0.0) == [{"hook": 1, "exit_code": None}]  # type: ignore[arg-type]
    assert shell.ran == []


def test_hooks_want_the_sum_of_their_times() -> None:
    assert wanted_s(hooks("one", "two", timeout_s=20.0)) == 40.0
