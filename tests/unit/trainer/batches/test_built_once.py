"""Many callers wait for one build, each of which may be cancelled."""

import asyncio

import pytest

from tests.harness.waiting import settle
from trainer.batches.built_once import BuiltOnce


class Building:
    """A build that ends when the test lets it."""

    def __init__(self):
        self.begun = 0
        self.ended = 0
        self.outcome = asyncio.get_running_loop().create_future()

    async def build(self):
        self.begun += 1
        try:
            return await asyncio.shield(self.outcome)
        finally:
            self.ended += 1


async def test_a_caller_that_is_cancelled_neither_ends_nor_repeats_the_build() -> None:
    work = Building()
    player = BuiltOnce(work.build)
    callers = [asyncio.create_task(player.get_built()) for _ in range(3)]
    await settle()
    callers[0].cancel()
    await settle()
    work.outcome.set_result("player")
    assert await asyncio.gather(*callers[1:]) == ["player", "player"]
    assert callers[0].cancelled()
    assert await player.get_built() == "player"
    assert work.begun == 1


async def test_what_failed_is_built_again_for_the_next_caller() -> None:
    work = Building()
    player = BuiltOnce(work.build)
    callers = [asyncio.create_task(player.get_built()) for _ in range(2)]
    await settle()
    work.outcome.set_exception(OSError("no room"))
    assert [str(each) for each in await asyncio.gather(*callers, return_exceptions=True)] == ["no room"] * 2
    work.outcome = asyncio.get_running_loop().create_future()
    work.outcome.set_result("player")
    assert await player.get_built() == "player"
    assert work.begun == 2


async def test_a_build_in_progress_is_ended_with_its_owner() -> None:
    work = Building()
    player = BuiltOnce(work.build)
    caller = asyncio.create_task(player.get_built())
    await settle()
    assert await player.stop_building() is None
    assert (work.begun, work.ended) == (1, 1)
    with pytest.raises(asyncio.CancelledError):
        await caller


@pytest.mark.parametrize("built", [False, True])
async def test_an_owner_that_ends_gets_what_was_built(built) -> None:
    work = Building()
    work.outcome.set_result("player")
    player = BuiltOnce(work.build)
    if built:
        await player.get_built()
    assert await player.stop_building() == ("player" if built else None)
