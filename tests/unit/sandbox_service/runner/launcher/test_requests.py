"""Requests of a worker that name an instance which the launcher does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.io.message_socket import pair, receive, send
from sandbox_service.runner.launcher.ownership import Ownership
from sandbox_service.runner.launcher.requests import RequestHandler
from sandbox_service.runner.messages.codec import Message
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

UNKNOWN = 12_345


@pytest.mark.parametrize(
    ("request_", "answers"),
    [
        (AdoptSession(UNKNOWN, 1), [Refused]),
        (CopyWorkspace(UNKNOWN), [CopyingStarted, Copied]),
    ],
)
def test_an_unknown_instance_is_refused_and_the_launcher_goes_on(
    tmp_path: Path, request_: Message, answers: list[type[Message]]
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
