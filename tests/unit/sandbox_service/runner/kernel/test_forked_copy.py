import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_service.runner.kernel.forked_copy import forked_copy

Send = Callable[[bytes], object]
PATIENCE_S = 30.0


def test_what_a_copy_computes_comes_back_and_what_it_changes_does_not() -> None:
    found = ["mine"]

    def change(send: Send) -> None:
        found.append("changed")
        send(" ".join(found).encode())

    with forked_copy(change) as copy:
        assert copy.read(PATIENCE_S) == b"mine changed"
        assert copy.read(PATIENCE_S) == b""
    assert (copy.status, found) == (0, ["mine"])


def test_a_copy_that_hangs_says_nothing_and_is_gone_afterwards() -> None:
    with forked_copy(lambda _: time.sleep(600)) as copy:
        assert copy.read(0.0) is None
    assert os.WTERMSIG(copy.status) == signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(copy.pid, 0)


def test_a_copy_that_raises_ends_without_a_word() -> None:
    def fail(_: Send) -> None:
        raise SystemExit(3)

    with forked_copy(fail) as copy:
        assert copy.read(PATIENCE_S) == b""


def test_a_copy_does_not_outlive_an_exception_of_its_original() -> None:
    with pytest.raises(ZeroDivisionError), forked_copy(lambda _: time.sleep(600)) as copy:
        raise ZeroDivisionError
    assert os.WIFSIGNALED(copy.status)


def test_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process() -> int:
        raise BlockingIOError

    before = len(list(Path("/proc/self/fd").iterdir()))
    with forked_copy(lambda send: send(b"1")) as copy:
        copy.read(PATIENCE_S)
    monkeypatch.setattr(os, "fork", no_process)
    with pytest.raises(OSError), forked_copy(lambda _: None):  # noqa: PT011
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
