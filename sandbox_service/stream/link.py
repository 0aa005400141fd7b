"""The asking end of an open connection: ties answers to questions by request id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.runner.frames import Frame, FrameError, Op

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
        self._pending: dict[int, asyncio.Future[Frame]] = {}
        self._last_id = 0

    async def ask(self, frame: Frame, deadline: float, late: ErrorCode) -> Frame:
        """Send a question and await its answer until the deadline; ``late`` is the code when it passes."""
        self._last_id = request_id = self._last_id + 1
        try:
            self.send(Frame(frame.op, request_id, frame.instance_id, frame.meta, frame.body))
        except FrameError as error:
            raise ServiceError(ErrorCode.BODY_TOO_LARGE, str(error)) from None
        answer: asyncio.Future[Frame] = self.loop.create_future()
        self._pending[request_id] = answer
        timer = self.loop.call_at(deadline, self._expire, answer, late)
        try:
            return await answer
        finally:
            timer.cancel()
            self._pending.pop(request_id, None)

    def frame_received(self, frame: Frame) -> None:
        if frame.op is Op.REPLY or frame.op is Op.ERROR:
            self.answered = True
            answer = self._pending.get(frame.request_id)
            # An answer that nobody waits for came after its deadline, or its asker was cancelled.
            if answer is not None and not answer.done():
                answer.set_result(frame)
        elif frame.op is Op.EVENT:
            self._on_event(self, frame)
        else:
            raise FrameError(f"a {frame.op.name} frame from the answering end")

    def lost(self) -> None:
        detail = f"the connection broke in mid-operation ({self.failure})"
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ServiceError(ErrorCode.OUTCOME_UNKNOWN, detail))
        self._on_lost(self)

    @staticmethod
    def _expire(answer: asyncio.Future[Frame], late: ErrorCode) -> None:
        if not answer.done():
            answer.set_exception(ServiceError(late, "no answer before the deadline"))
