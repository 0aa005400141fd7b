"""Callers of a reward model share passes, and only their own pass counts against their deadline."""

import asyncio
import threading

import numpy as np
import pytest

from tests.harness.waiting import until
from trainer.errors import RewardFailed
from trainer.reward_models.queue import MOST_TOKENS, QueueClosed, ScoringQueue
from trainer.reward_models.rows import ScoredRow

TIMEOUT_S = 0.3


def row(tokens: int) -> ScoredRow:
    return ScoredRow(tuple(range(tokens)), (tokens,))


def lengths(rows):
    return [np.array([[len(each.token_ids)]], dtype=np.float32) for each in rows]


class Held:
    """A model whose first pass ends when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.passes = []

    def __call__(self, rows):
        self.passes.append(len(rows))
        if len(self.passes) == 1:
            self.let_go.wait()
        return lengths(rows)


async def test_callers_that_wait_together_share_a_pass_up_to_its_tokens() -> None:
    model = Held()
    queue = ScoringQueue(model, 100)
    model.let_go.set()
    found = await asyncio.gather(*(queue.score_rows([row(MOST_TOKENS // 4)]) for _ in range(6)))
    await queue.close()
    assert [float(each[0][0, 0]) for each in found] == [MOST_TOKENS // 4] * 6
    assert model.passes == [4, 2]


async def test_rows_of_one_caller_are_one_pass_however_long() -> None:
    model = Held()
    queue = ScoringQueue(model, 100)
    model.let_go.set()
    assert len(await queue.score_rows([row(MOST_TOKENS)] * 3)) == 3
    await queue.close()
    assert model.passes == [3]


async def test_a_late_pass_fails_its_callers_and_not_those_that_wait_behind_it() -> None:
    model = Held()
    queue = ScoringQueue(model, 100, TIMEOUT_S)
    first = asyncio.create_task(queue.score_rows([row(MOST_TOKENS)]))
    second = asyncio.create_task(queue.score_rows([row(MOST_TOKENS)]))
    with pytest.raises(RewardFailed, match="not done within"):
        await first
    model.let_go.set()
    assert len(await second) == 1
    await queue.close()


async def test_a_pass_that_never_ends_fails_those_that_wait_behind_it_too() -> None:
    model = Held()
    queue = ScoringQueue(model, 100, TIMEOUT_S)
    calls = [queue.score_rows([row(MOST_TOKENS)]) for _ in range(2)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    model.let_go.set()
    await queue.close()
    assert [type(each) for each in found] == [RewardFailed] * 2
    assert model.passes == [1]


async def test_a_caller_that_went_away_is_not_scored() -> None:
    model = Held()
    queue = ScoringQueue(model, 100)
    first, gone, last = (asyncio.create_task(queue.score_rows([row(MOST_TOKENS)])) for _ in range(3))
    await asyncio.sleep(0)
    gone.cancel()
    model.let_go.set()
    await asyncio.gather(first, last)
    await queue.close()
    assert model.passes == [1, 1]


async def test_at_the_end_the_pass_in_progress_is_awaited_and_what_waits_or_comes_fails() -> None:
    model = Held()
    queue = ScoringQueue(model, 100)
    first, second = (asyncio.create_task(queue.score_rows([row(MOST_TOKENS)])) for _ in range(2))
    await until(lambda: model.passes)
    closing = asyncio.create_task(queue.close())
    with pytest.raises(QueueClosed):
        await second
    for late in (queue.score_rows([row(1)]), queue.run_between(list)):
        with pytest.raises(QueueClosed):
            await late
    model.let_go.set()
    assert len(await first) == 1
    await closing
    assert model.passes == [1]


async def test_work_between_passes_returns_or_raises_what_it_does() -> None:
    queue = ScoringQueue(lengths, 100)
    assert await queue.run_between(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await queue.run_between(lambda: 1 // 0)
    await queue.close()


async def test_at_the_end_a_pass_that_does_not_end_fails_and_is_left() -> None:
    model = Held()
    queue = ScoringQueue(model, 100, end_s=0.05)
    calls = [asyncio.create_task(queue.score_rows([row(MOST_TOKENS)])) for _ in range(2)]
    await until(lambda: model.passes)
    calls.append(asyncio.create_task(queue.run_between(list)))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await queue.close()
        found = await asyncio.gather(*calls, return_exceptions=True)
    model.let_go.set()
    assert [type(each) for each in found] == [QueueClosed] * 3


async def test_at_the_end_work_between_passes_that_does_not_end_fails_and_is_left() -> None:
    let_go, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work():
        loop.call_soon_threadsafe(begun.set)
        let_go.wait()

    queue = ScoringQueue(lengths, 100, end_s=0.05)
    working = asyncio.create_task(queue.run_between(work))
    await begun.wait()
    async with asyncio.timeout(60):
        await queue.close()
        with pytest.raises(QueueClosed):
            await working
    let_go.set()
