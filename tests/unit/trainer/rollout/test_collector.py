"""Groups of episodes: as many as there is room for, and what failures make of them."""

import asyncio

import pytest

from tests.fakes.batches import FakePlayer, alternating, failure, no_sleep, trajectory
from tests.harness.waiting import until
from trainer.config import RolloutConfig
from trainer.errors import ConfigError
from trainer.rollout.attempts import Attempts
from trainer.rollout.backpressure import Slots
from trainer.rollout.collector import Collector, GroupEnd
from trainer.rollout.progress import ProgressMonitor
from trainer.types import GroupSpec, TaskRef


class Source:
    """So many groups, one after another."""

    def __init__(self, groups=1, size=4):
        self.specs = [
            GroupSpec(index, TaskRef("code", "s", f"t{index}"), 0, size, 4) for index in range(groups)
        ]
        self.over = []

    def next_group(self):
        return self.specs.pop(0) if self.specs else None

    def group_ended(self, played):
        self.over.append(played)


class Collecting:
    """A collector at work."""

    def __init__(self, behaviour=alternating, slots=16, **rollout):
        self.slept = []
        self.player = FakePlayer(behaviour)
        self.slots = Slots(slots)
        self.watch = ProgressMonitor()
        config = RolloutConfig(**rollout)
        attempts = Attempts(self.player, config, self.slots, self.watch, self.sleep)
        self.collector = Collector(attempts, config, self.slots, self.sleep)

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await no_sleep(seconds)

    async def all_of(self, source):
        """Play until every group is over."""
        wanted = len(source.specs)
        running = asyncio.create_task(self.collector.run(source))
        await until(lambda: len(source.over) == wanted or running.done())
        running.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        if not isinstance(ended, asyncio.CancelledError):
            raise ended
        return source.over


async def test_members_are_in_their_order_whatever_order_they_end_in():
    collecting = Collecting()
    play = collecting.player.play_episode

    async def last_first(spec, member, sampling):
        for _ in range(20 * (4 - member)):
            await asyncio.sleep(0)
        return await play(spec, member, sampling)

    collecting.player.play_episode = last_first
    (played,) = await collecting.all_of(Source())
    assert [each.id for each in played.group.trajectories] == ["0.0", "0.1", "0.2", "0.3"]
    assert played.end is GroupEnd.PLAYED


async def test_no_more_episodes_than_slots_and_the_next_group_begins_as_they_come_free():
    collecting = Collecting(slots=5)
    assert len(await collecting.all_of(Source(groups=6))) == 6
    assert collecting.player.most_under_way == 5
    assert collecting.slots.held == 0


async def test_a_group_larger_than_the_room_is_played_bit_by_bit():
    collecting = Collecting(slots=2)
    (played,) = await collecting.all_of(Source(size=7))
    assert len(played.group.trajectories) == 7
    assert collecting.player.most_under_way == 2


async def test_an_episode_is_retried_in_a_fresh_instance_after_growing_waits():
    def twice_broken(spec, member, attempt):
        broken = member == 1 and attempt < 3
        return failure("sandbox") if broken else alternating(spec, member, attempt)

    collecting = Collecting(twice_broken, strategy={"kind": "retry", "attempts": 3, "backoff_s": 0.5})
    (played,) = await collecting.all_of(Source())
    assert played.end is GroupEnd.PLAYED
    assert [each.attempts for each in played.group.trajectories] == [1, 3, 1, 1]
    assert [note.failure_class for note in played.failures] == ["sandbox", "sandbox"]
    assert collecting.slept == [0.5, 1.0]


async def test_a_group_that_lost_an_episode_fails_and_the_next_is_held_up_longer_each_time():
    collecting = Collecting(
        lambda *_: failure("capacity", "queue_full"), strategy={"kind": "fail_fast"}, slots=4
    )
    over = await collecting.all_of(Source(groups=3))
    assert {played.end for played in over} == {GroupEnd.FAILED}
    assert collecting.slept == [0.5, 1.0, 2.0]


async def test_a_lost_group_does_not_wait_for_its_other_members():
    gate = asyncio.Event()
    collecting = Collecting(lambda *_: failure("sandbox"), strategy={"kind": "fail_fast"})
    play = collecting.player.play_episode

    async def others_wait(spec, member, sampling):
        if member:
            await gate.wait()
        return await play(spec, member, sampling)

    collecting.player.play_episode = others_wait
    (played,) = await collecting.all_of(Source())
    assert played.end is GroupEnd.FAILED
    assert len(played.group.trajectories) == 1
    assert collecting.slots.held == 0


@pytest.mark.parametrize(("broken", "end"), [(2, GroupEnd.PLAYED), (3, GroupEnd.FAILED)])
async def test_a_minimum_group_goes_on_with_half_of_its_members(broken, end):
    def some_break(spec, member, attempt):
        return failure("timeout") if member < broken else alternating(spec, member, attempt)

    collecting = Collecting(some_break, strategy={"kind": "minimum_group", "attempts": 1, "share": 0.5})
    (played,) = await collecting.all_of(Source())
    assert played.end is end
    assert len(played.failures) == broken


async def test_a_broken_task_ends_its_group_at_once():
    collecting = Collecting(lambda *_: failure("task", "grader_failed"))
    (played,) = await collecting.all_of(Source())
    assert played.end is GroupEnd.TASK_BROKEN


async def test_the_policys_own_failure_is_an_unsolved_episode():
    def misbehaves(spec, member, attempt):
        return failure("policy") if member == 0 else trajectory(spec, member)

    (played,) = await Collecting(misbehaves).all_of(Source())
    assert [each.score for each in played.group.trajectories] == [0.0, 1.0, 1.0, 1.0]
    assert all(each.scored for each in played.group.trajectories)


async def test_a_wrong_request_is_raised_with_what_the_service_said():
    collecting = Collecting(lambda *_: failure("request", "unknown_environment", "create"))
    with pytest.raises(ConfigError, match="unknown_environment"):
        await collecting.all_of(Source())
    assert collecting.slots.held == 0


async def test_a_cancelled_collector_leaves_nothing_running():
    collecting = Collecting()
    collecting.player.hold()
    running = asyncio.create_task(collecting.collector.run(Source(groups=2)))
    await until(lambda: collecting.player.under_way == 8)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert collecting.player.under_way == 0
    assert collecting.slots.held == 0
    collecting.player.held = None
    assert len(await collecting.all_of(Source(groups=2))) == 2
