"""The number of episodes that are played at a time."""

import asyncio

import pytest

from sandbox_client.errors import Failure, TransportError
from sandbox_contract.inspection import PoolStats, Stats, SupervisorStats
from sandbox_contract.problems import FailureClass
from tests.harness.waiting import until
from trainer.rollout.backpressure import Slots, adjusted, first_limit, follow_pool, pools_of


def pool(environment="code", **figures):
    plain = dict.fromkeys(PoolStats.model_fields, 0) | {"sandbox": "process", "max_boxes": 8}
    return PoolStats(**(plain | {"environment": environment} | figures))


def stats(*pools, draining=False):
    supervisor = SupervisorStats(name="s", node="n", draining=draining, uptime_s=1.0, pools=pools)
    return Stats(supervisors=(supervisor,), instances=0, queued=0)


async def test_slots_are_given_in_the_order_of_asking():
    slots = Slots(1)
    await slots.acquire()
    order = []

    async def ask(name):
        await slots.acquire()
        order.append(name)
        slots.release()

    tasks = [asyncio.create_task(ask(name)) for name in "abc"]
    await until(lambda: slots.waiting == 3)
    slots.release()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert slots.held == 0


async def test_growing_slots_let_more_in_and_shrinking_ones_wait_for_the_others():
    slots = Slots(1)
    await slots.acquire()
    second = asyncio.create_task(slots.acquire())
    await until(lambda: slots.waiting == 1)
    slots.resize(2)
    await second
    slots.resize(1)
    third = asyncio.create_task(slots.acquire())
    await until(lambda: slots.waiting == 1)
    slots.release()
    await asyncio.sleep(0)
    assert not third.done()
    slots.release()
    await third
    assert slots.held == 1


@pytest.mark.parametrize("granted", [False, True], ids=["while waiting", "as it is granted"])
async def test_who_is_cancelled_takes_no_slot_along(granted):
    slots = Slots(1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    await until(lambda: slots.waiting == 1)
    if granted:
        slots.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert slots.waiting == 0
    assert slots.held == (0 if granted else 1)


def test_pools_of_other_environments_and_of_draining_supervisors_do_not_count():
    assert [each.idle for each in pools_of(stats(pool(idle=1), pool("bfcl", idle=2)), ("code",))] == [1]
    assert pools_of(stats(pool(), draining=True), ("code",)) == ()


def test_it_begins_with_two_episodes_a_box():
    assert first_limit(128, [pool(max_boxes=8)]) == 16
    assert first_limit(10, [pool(max_boxes=8)]) == 10
    assert first_limit(128, []) == 128


def test_creates_that_queue_lower_the_limit_to_what_is_served():
    assert adjusted(64, held=64, creating=56, concurrency=64, pools=[pool(queued=56, busy=8)]) == 8
    assert adjusted(64, held=64, creating=56, concurrency=64, pools=[pool(queued=56, starting=4)]) == 12


def test_queues_of_others_do_not_lower_it():
    assert adjusted(16, held=10, creating=0, concurrency=64, pools=[pool(queued=50)]) == 16


def test_it_never_falls_to_nothing():
    assert adjusted(4, held=4, creating=4, concurrency=64, pools=[pool(queued=9)]) == 1


def test_it_doubles_when_all_slots_are_used_and_nothing_queues():
    assert adjusted(8, held=8, creating=1, concurrency=64, pools=[pool()]) == 16
    assert adjusted(48, held=48, creating=0, concurrency=64, pools=[pool()]) == 64
    assert adjusted(8, held=5, creating=0, concurrency=64, pools=[pool()]) == 8


async def test_the_slots_follow_the_pool_and_stay_when_it_does_not_answer():
    answers = [
        TransportError(Failure("gone", "transport_error", FailureClass.SANDBOX)),
        stats(pool(max_boxes=4)),
        stats(pool(queued=6)),
    ]

    class Service:
        asked = 0

        async def stats(self):
            answer = answers[min(self.asked, len(answers) - 1)]
            self.asked += 1
            seen.append(slots.limit)
            if isinstance(answer, Exception):
                raise answer
            return answer

    slots, seen, service = Slots(32), [], Service()
    slots.held = 8
    following = asyncio.create_task(follow_pool(service, ("code",), slots, 32, lambda: 6, every_s=0.001))
    await until(lambda: service.asked > 3)
    following.cancel()
    assert seen[:4] == [32, 32, 8, 2]
