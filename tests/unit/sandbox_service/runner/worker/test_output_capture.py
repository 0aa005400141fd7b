"""The part of a cell's or command's output that is kept."""

from __future__ import annotations

import os
import signal

from sandbox_service.runner.worker.output_capture import OutputCapture


def test_what_was_written_is_kept_up_to_the_limit() -> None:
    capture = OutputCapture(4)
    os.write(capture.writing, b"abcdef")
    capture.close_writing()
    capture.finish()
    assert (capture.text, capture.truncated) == ("abcd", True)


def test_a_process_that_goes_on_writing_is_not_waited_for() -> None:
    capture = OutputCapture(1 << 30)
    os.set_blocking(capture.writing, False)
    full = os.write(capture.writing, bytes(1 << 24))
    os.set_blocking(capture.writing, True)
    endless = os.fork()
    if endless == 0:
        while True:
            os.write(capture.writing, b"x" * full)
    try:
        capture.finish()
    finally:
        os.kill(endless, signal.SIGKILL)
        os.waitpid(endless, 0)
        capture.close_writing()
    assert capture.text == "\0" * full
