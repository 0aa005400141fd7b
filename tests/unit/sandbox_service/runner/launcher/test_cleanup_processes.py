"""Children that work while the launcher goes on."""

from __future__ import annotations

import os

from sandbox_service.runner.kernel import killing
from sandbox_service.runner.launcher.cleanup_processes import CleanupProcesses


def outcome(errands: CleanupProcesses) -> None:
    errands.await_all(lambda: killing.reap(lambda pid, code: _hear(errands, pid, code)))


def _hear(errands: CleanupProcesses, pid: int, code: int) -> None:
    errands.process_ended(pid, code)


def test_the_launcher_hears_what_is_left() -> None:
    errands, heard = CleanupProcesses(), []
    errands.run("files", lambda: ["/tmp/left"], heard.append)
    assert len(errands.pids) == 1
    outcome(errands)
    assert heard == [["/tmp/left"]]
    assert errands.pids == set()


def test_an_errand_that_comes_to_no_end_has_left_all(capfd: object) -> None:
    errands, heard = CleanupProcesses(), []
    errands.run("files of 7", lambda: os._exit(9), heard.append)
    outcome(errands)
    assert heard == [["files of 7"]]


def test_a_descriptor_that_is_handed_over_is_the_childs_alone_when_it_begins() -> None:
    errands, heard = CleanupProcesses(), []
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def work() -> list[str]:
        os.close(writing)
        return [repr(os.read(reading, 1))]

    errands.run("pipe", work, heard.append, handed_over=writing)
    outcome(errands)
    os.close(reading)
    assert heard == [["b''"]]


def test_other_children_are_no_errands() -> None:
    assert CleanupProcesses().process_ended(12345, 0) is False
