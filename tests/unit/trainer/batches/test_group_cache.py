"""Samples of cached groups are made once, even if a caller is cancelled."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from tests.harness.waiting import settle, until
from trainer.batches.group_cache import GroupCache


class Group:
    """Its samples are made when the test lets them."""

    def __init__(self, index: int) -> None:
        self.spec = SimpleNamespace(index=index)
        self.begun, self.go = threading.Event(), threading.Event()

    def samples(self, costs: tuple[str, ...]) -> tuple[str, ...]:
        self.begun.set()
        assert self.go.wait(60)
        return (f"sample of {self.spec.index}",)


async def test_a_wait_that_is_cancelled_leaves_the_samples_to_the_next() -> None:
    cache = GroupCache(writer=None, score=None)
    first, second = Group(0), Group(1)
    cache.put(first)
    cache.put(second)
    await until(first.begun.is_set)
    waiting = asyncio.create_task(cache.samples([1]))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for group in (first, second):
        group.go.set()
    assert await cache.samples([0, 1]) == ("sample of 0", "sample of 1")
    cache.close()
