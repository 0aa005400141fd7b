"""Score rows of many callers together: one thread, which takes all that waits as its next pass."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from local_processes.serial_thread import SerialThread
from trainer.errors import RewardFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .rows import ScoredRow

    Outputs: TypeAlias = list[NDArray[np.float32]]
    _Caller: TypeAlias = tuple[Sequence[ScoredRow], asyncio.Future[Outputs]]

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
MOST_ROWS = 256
"""Rows that one pass takes; a caller's rows are never divided."""
MOST_TOKENS = 4096
"""Tokens that one pass takes of several callers, who are answered together."""
END_S = 10.0
"""Time for the pass in progress when the queue is closed."""


class QueueFull(RewardFailed):
    """More rows wait than the queue takes."""


class QueueClosed(RewardFailed):
    """The queue was closed."""

    def __init__(self) -> None:
        super().__init__("the reward model is being closed")


class ScoringQueue:
    """A reward model for concurrent callers, on one event loop."""

    def __init__(
        self,
        score: Callable[[Sequence[ScoredRow]], Outputs],
        most_waiting: int,
        timeout_s: float | None = None,
        end_s: float = END_S,
    ) -> None:
        """``score`` is called in one thread, never twice at a time.

        ``timeout_s`` is the deadline of a pass: waiting behind others does not count, except behind a pass
        that is late itself. ``end_s`` is the time that ``close`` leaves the pass in progress.
        """
        self._score = score
        self._most = most_waiting
        self._timeout_s = timeout_s
        self._waiting: deque[_Caller] = deque()
        self._end_s = end_s
        self._closed = False
        self._thread = SerialThread("reward-model")
        self._running: asyncio.Task[None] | None = None
        self._between: set[asyncio.Future[Any]] = set()
        """Work of ``run_between`` that waits or is in progress."""

    async def score_rows(self, rows: Sequence[ScoredRow]) -> Outputs:
        """Return the outputs of rows.

        Raises QueueFull, QueueClosed, RewardFailed after the deadline, and what the model raises for them.
        """
        if self._closed:
            raise QueueClosed
        if sum(len(each) for each, _ in self._waiting) + len(rows) > self._most:
            raise QueueFull(f"{self._most} rows wait for the reward model already")
        done: asyncio.Future[Outputs] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, done))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await done

    async def run_between(self, work: Callable[[], _Result]) -> _Result:
        """Run work in the thread that scores, between two passes. Raises QueueClosed."""
        if self._closed:
            raise QueueClosed
        working = asyncio.wrap_future(self._thread.submit(work))
        self._between.add(working)
        try:
            await asyncio.wait({working})
            if working.cancelled():  # by ``close``
                raise QueueClosed
            return working.result()
        finally:
            self._between.discard(working)
            working.cancel()

    async def close(self) -> None:
        """Fail what waits with QueueClosed, and after a while also what does not end. Idempotent.

        That is a pass, or work between passes, whose thread is left behind.
        """
        if self._closed:
            return
        self._closed = True
        while self._waiting:
            _settle(self._waiting.popleft()[1], QueueClosed())
        last = asyncio.wrap_future(self._thread.submit(lambda: None))
        ends: set[asyncio.Future[Any]] = {last, *self._between}
        if self._running is not None:
            ends.add(self._running)
        _, late = await asyncio.wait(ends, timeout=self._end_s)
        if late:
            logger.warning("a call of the reward model did not end within %g s and is left", self._end_s)
        for each in late:
            each.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        self._thread.end_thread()

    async def _run(self) -> None:
        while taken := self._taken():
            try:
                found = await self._passed(taken)
            except Exception as error:  # noqa: BLE001 - the callers get it
                await self._settle_apart(taken, error)
            else:
                for rows, done in taken:
                    _settle(done, found[: len(rows)])
                    found = found[len(rows) :]
            finally:
                for _, done in taken:
                    _settle(done, QueueClosed())

    def _taken(self) -> list[_Caller]:
        """Take the callers of the next pass, and drop those that wait no longer."""
        self._waiting = deque(each for each in self._waiting if not each[1].done())
        taken: list[_Caller] = []
        count = tokens = 0
        while self._waiting:
            rows, _ = self._waiting[0]
            count += len(rows)
            tokens += sum(len(row.token_ids) for row in rows)
            if taken and (count > MOST_ROWS or tokens > MOST_TOKENS):
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _passed(self, taken: Sequence[_Caller]) -> Outputs:
        """Score callers in one pass; if it is late they fail, and after as long again those behind it."""
        rows = [row for own, _ in taken for row in own]
        scoring = asyncio.wrap_future(self._thread.submit(partial(self._score, rows)))
        late = taken
        try:
            while not (await asyncio.wait({scoring}, timeout=self._timeout_s))[0]:
                for _, done in late:
                    _settle(done, RewardFailed(f"the reward model was not done within {self._timeout_s:g} s"))
                late = tuple(self._waiting)
            return scoring.result()
        finally:
            scoring.cancel()  # a pass that ends after the event loop has no one to report to

    async def _settle_apart(self, taken: Sequence[_Caller], error: Exception) -> None:
        """Score callers one by one after a failure, so that rows of one do not fail those of another."""
        for caller in taken:
            _, done = caller
            if done.done():
                continue
            if len(taken) == 1:
                _settle(done, error)
                continue
            try:
                _settle(done, await self._passed([caller]))
            except Exception as own:  # noqa: BLE001 - the caller gets it
                _settle(done, own)


def _settle(done: asyncio.Future[Outputs], result: Outputs | Exception) -> None:
    if done.done():
        return
    if isinstance(result, Exception):
        done.set_exception(result)
    else:
        done.set_result(result)
