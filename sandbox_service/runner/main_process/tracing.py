"""The times at which the runner worked on a traced frame, for the supervisor's span of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from sandbox_service.wire.frames import Frame


def with_times(answer: Callable[[Frame], None]) -> Callable[[Frame], None]:
    """Return ``answer`` such that the answer has the unix times of now and of itself, in nanoseconds."""
    began = time.time_ns()

    def answer_with_times(reply: Frame) -> None:
        meta = {**reply.meta, "ran": [began, time.time_ns()]}
        answer(Frame(reply.op, reply.request_id, reply.instance_id, meta, reply.body))

    return answer_with_times
