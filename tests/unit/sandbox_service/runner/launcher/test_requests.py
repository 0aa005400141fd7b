"""Requests of a worker that name an instance or a process which is not theirs to name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.io.message_socket import pair, receive, send
from sandbox_service.runner.kernel.procfs import children
from sandbox_service.runner.launcher.ownership import Ownership
from sandbox_service.runner.launcher.requests import RequestHandler
from sandbox_service.runner.messages.control import (
    ANSWERS,
    AdoptSession,
    Copied,
    CopyingStarted,
    CopyWorkspace,
    Done,
    KillAgent,
    Refused,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.runner.messages.codec import RunnerMessage

UNKNOWN = 12_345


def in_child(check: Callable[[], None]) -> None:
    """Run a check in a process without other children: a launcher kills those that nobody owns."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    ("request_", "answers"),
    [
        (AdoptSession(UNKNOWN, 1), [Refused]),
        (CopyWorkspace(UNKNOWN), [CopyingStarted, Copied]),
    ],
)
def test_an_unknown_instance_is_refused_and_the_launcher_goes_on(
    tmp_path: Path, request_: RunnerMessage, answers: list[type[RunnerMessage]]
) -> None:
    launcher, worker = pair()
    config = RunnerConfig(world_module="w", workspace_root=str(tmp_path))
    handler = RequestHandler(Ownership(config), 1, None, launcher)
    with launcher, worker:
        send(worker, request_)
        assert handler.receive_request()
        replies = [receive(worker, ANSWERS, wait=False)[0] for _ in answers]
        assert [type(reply) for reply in replies] == answers
        assert Copied(True) not in replies
        send(worker, KillAgent())
        assert handler.receive_request()
        assert receive(worker, ANSWERS, wait=False)[0] == Done(True)


def test_a_fork_ends_although_its_copy_was_released_meanwhile(tmp_path: Path) -> None:
    def check() -> None:
        launcher, worker = pair()
        ownership = Ownership(RunnerConfig(world_module="w", workspace_root=str(tmp_path)))
        handler = RequestHandler(ownership, 1, None, launcher)
        for request in (CopyWorkspace(UNKNOWN), AdoptSession(UNKNOWN, 1)):
            send(worker, request)
            assert handler.receive_request()
        assert ownership.forks_in_progress == 0

    in_child(check)


def test_a_cleanup_is_not_adopted_as_a_session(tmp_path: Path) -> None:
    def check() -> None:
        ownership = Ownership(RunnerConfig(world_module="w", workspace_root=str(tmp_path)))
        left: list[list[str]] = []
        for serial in (1, 2):
            ownership.add_instance(serial, None)
        place = ownership.place(1, "session")
        ownership.start(1, "session", place, [], lambda: None)
        ownership.release(1, left.append)
        cleanups = children()
        assert cleanups
        assert not any(ownership.adopt(pid, 2) for pid in cleanups)
        assert ownership.reset() == []
        assert left == [[]]

    in_child(check)
