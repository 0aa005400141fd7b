"""File frames: what a world's workspace answers, and what of it is the path's fault."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from sandbox_service.runner.io.packets import MAX_BLOB
from sandbox_service.runner.worker.episode import Refusal
from sandbox_service.runner.worker.file_frames import serve_file_frame
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import MAX_BODY, Frame, Op


class EndlessFiles:
    """An agent whose every file is larger than is read."""

    def read_file(self, path: str, max_bytes: int) -> bytes:
        assert max_bytes <= MAX_BLOB, "the file helper could not send so much"
        return bytes(max_bytes)


class FailingFiles:
    """An agent whose file helper fails."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def read_file(self, path: str, max_bytes: int) -> bytes:
        raise self._error

    def write_file(self, path: str, data: bytes) -> None:
        raise self._error


def read(agent: Any, max_bytes: int = 10) -> Refusal:
    with pytest.raises(Refusal) as caught:
        serve_file_frame(Frame(Op.FILE_READ, 1, "i", {"path": "f", "max_bytes": max_bytes}), agent)
    return caught.value


@pytest.mark.parametrize("most", [10, MAX_BODY, 2 * MAX_BODY])
def test_a_file_is_too_large_whatever_more_a_caller_would_take(most: int) -> None:
    refusal = read(EndlessFiles(), most)
    assert refusal.code is BoxErrorCode.FILE_TOO_LARGE
    assert refusal.detail == f"f has more than {min(most, MAX_BODY)} bytes"


@pytest.mark.parametrize("error", [OSError("the file helper ended"), TimeoutError("the deadline passed")])
def test_a_failure_of_the_helper_is_not_the_paths_fault(error: OSError) -> None:
    assert read(FailingFiles(error)).code is BoxErrorCode.SANDBOX_FAILED


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_file_that_has_no_room_in_the_workspace_is_too_large_and_no_failure_of_the_service(
    number: int,
) -> None:
    agent = FailingFiles(OSError(number, os.strerror(number)))
    with pytest.raises(Refusal) as caught:
        serve_file_frame(Frame(Op.FILE_WRITE, 1, "i", {"path": "f"}, b"data"), agent)
    assert caught.value.code is BoxErrorCode.FILE_TOO_LARGE
    assert caught.value.detail.startswith("f ")
