"""Requests to the launcher whose answers are late."""

from __future__ import annotations

import threading

import pytest

from sandbox_service.runner.io.message_socket import pair, send
from sandbox_service.runner.messages.control import (
    Done,
    EndProcess,
    KillAgent,
    ProcessExited,
    Refused,
    Started,
    StartShell,
)
from sandbox_service.runner.worker.control import ControlSocket

EXITED = ProcessExited(4711, -9)


def test_an_answer_that_is_there_is_not_waited_for() -> None:
    ours, theirs = pair()
    waits: list[bool] = []
    with ours, theirs:
        send(theirs, EXITED)
        send(theirs, Done(True))
        control = ControlSocket(ours, waits.append)
        assert control.ask(KillAgent(), Done).clean
        assert control.exit_code(EXITED.pid) == EXITED.code
    assert not waits


def test_a_late_answer_is_waited_for_also_behind_the_report_of_an_ended_process() -> None:
    """As after a command that ran out of time: its report comes before what is asked next."""
    ours, theirs = pair()
    waits: list[bool] = []

    def answer(begins: bool) -> None:
        waits.append(begins)
        if begins:
            send(theirs, EXITED)
            send(theirs, Done(True))

    with ours, theirs:
        ours.settimeout(5)
        send(theirs, EXITED)
        assert ControlSocket(ours, answer).ask(EndProcess(EXITED.pid), Done).clean
    assert waits == [True, False]


def test_the_wait_for_a_request_that_is_refused_ends_too() -> None:
    ours, theirs = pair()
    waits: list[bool] = []

    def refuse(begins: bool) -> None:
        waits.append(begins)
        if begins:
            send(theirs, Refused("no"))

    with ours, theirs:
        ours.settimeout(5)
        with pytest.raises(OSError, match="no"):
            ControlSocket(ours, refuse).ask(KillAgent(), Done)
    assert waits == [True, False]


def test_a_late_start_gives_no_more_time() -> None:
    ours, theirs = pair()
    waits: list[bool] = []
    with ours, theirs:
        late = threading.Timer(0.3, send, (theirs, Started(4712, None)))
        late.start()
        assert ControlSocket(ours, waits.append).ask(StartShell(), Started).pid == 4712
        late.join()
    assert not waits
