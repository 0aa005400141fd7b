"""Threads for work on long texts, so that the event loop goes on with other episodes meanwhile.

Tokenizers let other threads run while they work; short texts are not worth the way to a thread and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

SHORT = 4_000
"""Characters that are tokenised in less than about a millisecond."""


class Offload:
    """Runs work in the loop's thread or in another one, by its size."""

    def __init__(self, threads: int = 2, *, shared: bool = True) -> None:
        """With ``shared`` false, what is used may not be used by two threads at a time: all stays in one."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="text") if shared else None

    async def run(self, characters: int, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises; ``characters`` is how much text it is about."""
        if self._pool is None or characters < SHORT:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
