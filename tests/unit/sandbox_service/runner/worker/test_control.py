"""Requests to the launcher whose answers are late."""

from __future__ import annotations

from sandbox_service.runner.io.message_socket import pair, send
from sandbox_service.runner.messages.control import Done, EndProcess, KillAgent, ProcessExited
from sandbox_service.runner.worker.control import ControlSocket

EXITED = ProcessExited(4711, -9)


def test_an_answer_that_is_there_is_not_waited_for() -> None:
    ours, theirs = pair()
    waits: list[None] = []
    with ours, theirs:
        send(theirs, EXITED)
        send(theirs, Done(True))
        control = ControlSocket(ours, lambda: waits.append(None))
        assert control.ask(KillAgent(), Done).clean
        assert control.exit_code(EXITED.pid) == EXITED.code
    assert not waits


def test_a_late_answer_is_waited_for_also_behind_the_report_of_an_ended_process() -> None:
    """As after a command that ran out of time: its report comes before what is asked next."""
    ours, theirs = pair()
    waits: list[None] = []

    def answer() -> None:
        waits.append(None)
        send(theirs, EXITED)
        send(theirs, Done(True))

    with ours, theirs:
        ours.settimeout(5)
        send(theirs, EXITED)
        assert ControlSocket(ours, answer).ask(EndProcess(EXITED.pid), Done).clean
    assert len(waits) == 1
