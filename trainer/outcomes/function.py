"""Outcomes by a function: ``reward(trajectory, **options) -> float``.

A coroutine function runs on the event loop; any other runs in a thread of its own, since it may compute for
long. Both have a deadline. A thread cannot be ended: one that hangs goes on, and after several of them the
run ends.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from trainer.error_text import error_text
from trainer.errors import RewardFailed, RunEnded

from .source import finite

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainer.types import Trajectory

MOST_HUNG = 8
"""Threads that may hang."""


class FunctionOutcome:
    """Implements ``OutcomeSource`` with a function."""

    def __init__(
        self,
        name: str,
        function: Callable[..., object],
        options: Mapping[str, JsonValue],
        timeout_s: float,
    ) -> None:
        self._origin = f"the reward function {name!r}"
        self._function = function
        self._options = dict(options)
        self._timeout_s = timeout_s
        self._hung = 0

    async def find_outcome(self, trajectory: Trajectory) -> float:
        try:
            async with asyncio.timeout(self._timeout_s) as deadline:
                value = await self._called(trajectory)
        except TimeoutError as error:
            if not deadline.expired():
                raise self._failed(error) from error
            self._count_hung()
            raise RewardFailed(f"{self._origin} was not done within {self._timeout_s:g} s") from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._failed(error) from error
        except (Exception, SystemExit) as error:
            raise self._failed(error) from error
        return finite(value, self._origin)

    async def close(self) -> None:
        """Do nothing: threads that hang end with the process."""

    async def _called(self, trajectory: Trajectory) -> object:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(trajectory, **self._options)
        value = await _in_thread(lambda: self._function(trajectory, **self._options))
        return await value if isinstance(value, Awaitable) else value

    def _failed(self, error: BaseException) -> RewardFailed:
        return RewardFailed(f"{self._origin} raised {error_text(error)}")

    def _count_hung(self) -> None:
        if inspect.iscoroutinefunction(self._function):
            return
        self._hung += 1
        if self._hung >= MOST_HUNG:
            raise RunEnded(
                f"{self._origin} hung for {self._hung} episodes, each longer than reward.timeout_s="
                f"{self._timeout_s:g}; their threads cannot be ended, so the run ends"
            )


async def _in_thread(work: Callable[[], object]) -> object:
    """Run work in a daemon thread of its own, which nothing waits for after a deadline."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(value: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value: object = None
        failure: BaseException | None = None
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - also SystemExit of the function is its failure
            failure = error if _can_be_sent(error) else RuntimeError(error_text(error))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name="reward", daemon=True).start()
    return await done


def _can_be_sent(error: BaseException) -> bool:
    """Return whether a future raises this at its awaiter: none takes a StopIteration, and others end the
    event loop.
    """
    return isinstance(error, Exception) and not isinstance(error, StopIteration)
