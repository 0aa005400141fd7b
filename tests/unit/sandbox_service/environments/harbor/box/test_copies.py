from __future__ import annotations

from typing import Any

import pytest

from sandbox_service.environments.harbor.box.copies import Copies, copy_folders
from sandbox_service.environments.harbor.box.room import LEAST_ARCHIVE
from sandbox_service.runner.world import Execution, WorldError
from sandbox_service.wire.json_types import JsonObject

WORK = "d29yaw=="
HOOK = {"command": "dump", "timeout_s": 30.0}


class Shell:
    """An agent whose commands end as is asked; hooks fail."""

    workspace = "/workspace/1"

    def __init__(self, copied: Execution) -> None:
        self._copied = copied
        self.times: list[float] = []
        self.bounds: list[int] = []

    def shell(self, command: str, timeout_s: float, most: int = 0, wall_timeout_s: float = 0) -> Execution:
        self.times.append(timeout_s)
        self.bounds.append(most)
        return Execution("", 3) if command.endswith("dump") else self._copied


def copies(shell: Shell, all_bytes: int = 2 * LEAST_ARCHIVE) -> Copies:
    return Copies(shell, {"all_archives_bytes": all_bytes})  # type: ignore[arg-type]


def step(*hooks: JsonObject, name: str = "", **changes: Any) -> JsonObject:
    made = {"name": name, "collect": list(hooks), "artifacts": None, "archive_bytes": LEAST_ARCHIVE}
    return {**made, **changes}


@pytest.mark.parametrize(
    ("copied", "work"),
    [
        (Execution(WORK, 0), WORK),
        (Execution(WORK, 0, truncated=True), None),
        (Execution("", None, timed_out=True), None),
        (Execution("no such folder", 1), ""),
    ],
)
def test_a_copy_is_what_the_agent_left(copied: Execution, work: str | None) -> None:
    assert copy_folders(Shell(copied), 10) == work  # type: ignore[arg-type]


def test_a_shell_that_is_killed_is_the_sandboxs_failure() -> None:
    with pytest.raises(WorldError) as caught:
        copy_folders(Shell(Execution("", None, died=True)), 10)  # type: ignore[arg-type]
    assert caught.value.code == "sandbox_failed"


@pytest.mark.parametrize(
    ("hooks", "archive_bytes", "ends", "reserved_s"),
    [
        ([], LEAST_ARCHIVE, True, 5.0),
        ([], 2 * LEAST_ARCHIVE, False, 5.0),
        ([], 2 * LEAST_ARCHIVE, True, 10.0),
        ([HOOK], LEAST_ARCHIVE, False, 5.0),
        ([HOOK], LEAST_ARCHIVE, True, 30.0),
        ([{**HOOK, "timeout_s": 3.0}], LEAST_ARCHIVE, True, 8.0),
    ],
)
def test_a_step_keeps_time_for_the_hooks_and_the_copy_at_its_end(
    hooks: list[JsonObject], archive_bytes: int, ends: bool, reserved_s: float
) -> None:
    made = copies(Shell(Execution(WORK, 0)))
    ended = step(*hooks, archive_bytes=archive_bytes)
    assert made.reserved_s(ended, 60.0, ends=ends) == reserved_s


def test_hooks_leave_a_long_copy_its_time() -> None:
    shell = Shell(Execution(WORK, 0))
    made = copies(shell)
    made.keep_copy(step(HOOK, archive_bytes=4 * LEAST_ARCHIVE), "cd /app", 30.0)
    assert made.works == [WORK]
    assert shell.times[0] == pytest.approx(15.0, abs=0.5)


def test_a_failure_of_a_hook_is_kept_by_its_step_and_once() -> None:
    made = copies(Shell(Execution(WORK, 0)))
    made.copy_work(step(HOOK, name="one"), "", 30.0)
    made.keep_copy(step(HOOK, name="one"), "", 30.0)
    made.keep_copy(step(HOOK, name="two"), "", 30.0)
    assert made.failed_hooks == [{"step": each, "hook": 1, "exit_code": 3} for each in ("one", "two")]


def test_each_step_leaves_what_its_tests_take_and_all_copies_together_are_bounded() -> None:
    shell = Shell(Execution(f"f{WORK}", 0))
    made = copies(shell, all_bytes=20)
    artifacts = [{"source": "app/answer.txt", "exclude": []}]
    made.keep_copy(step(name="one", artifacts=artifacts), "", 30.0)
    made.keep_copy(step(name="two"), "", 30.0)
    made.keep_copy(step(name="three", artifacts=artifacts, archive_bytes=2), "", 30.0)
    packed = [{"source": "app/answer.txt", "kind": "f", "archive": WORK}]
    assert made.works == [packed, f"f{WORK}", packed]
    assert shell.bounds == [20, 20 - len(WORK), 2]
