"""The asking end of an open connection: ties answers to questions by request id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Frame, FrameError, Op

from .channel import Channel

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["Link"]


class Link(Channel):
    """One connection's pending questions; all of them fail when it breaks."""

    def __init__(
        self,
        on_event: Callable[[Link, Frame], None],
        on_lost: Callable[[Link], None],
        write_buffer: int,
    ) -> None:
        super().__init__(write_buffer)
        self.answered = False
        """Whether the peer ever answered, which a broken one that accepts and hangs up does not."""
        self._on_event = on_event
        self._on_lost = on_lost
        self._pending: dict[int, _Question] = {}
        self._last_id = 0
        self._alarm: asyncio.TimerHandle | None = None
        """One timer for all questions: it goes off when the first of them may be late."""

    async def ask(self, frame: Frame, deadline: float, late: ErrorCode) -> Frame:
        """Send a question and await its answer until the deadline; ``late`` is the code when it passes."""
        self._last_id = request_id = self._last_id + 1
        try:
            self.send(frame, request_id)
        except FrameError as error:
            raise ServiceError(ErrorCode.BODY_TOO_LARGE, str(error)) from None
        answer: asyncio.Future[Frame] = self.loop.create_future()
        self._pending[request_id] = (answer, deadline, late)
        if self._alarm is None or deadline < self._alarm.when():
            self._set_alarm(deadline)
        try:
            return await answer
        finally:
            del self._pending[request_id]

    def frame_received(self, frame: Frame) -> None:
        if frame.op is Op.REPLY or frame.op is Op.ERROR:
            self.answered = True
            question = self._pending.get(frame.request_id)
            # An answer that nobody waits for came after its deadline, or its asker was cancelled.
            if question is not None and not question[0].done():
                question[0].set_result(frame)
        elif frame.op is Op.EVENT:
            self._on_event(self, frame)
        else:
            raise FrameError(f"a {frame.op.name} frame from the answering end")

    def lost(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        detail = f"the connection broke in mid-operation ({self.failure})"
        for answer, _, _ in self._pending.values():
            if not answer.done():
                answer.set_exception(ServiceError(ErrorCode.OUTCOME_UNKNOWN, detail))
        self._on_lost(self)

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self.loop.call_at(when, self._expire, when)

    def _expire(self, until: float) -> None:
        """Fail the questions that are late, and wait for the next that may be."""
        self._alarm = None
        for answer, deadline, late in self._pending.values():
            if deadline <= until and not answer.done():
                answer.set_exception(ServiceError(late, "no answer before the deadline"))
        waiting = [deadline for _, deadline, _ in self._pending.values() if deadline > until]
        if waiting:
            self._set_alarm(min(waiting))


if TYPE_CHECKING:
    _Question = tuple[asyncio.Future[Frame], float, ErrorCode]
