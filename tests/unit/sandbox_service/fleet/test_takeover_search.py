"""The gateway has an instance or a create taken over where its supervisor is not reached."""

from __future__ import annotations

import asyncio

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, NodeFullError, ServiceError
from sandbox_service.fleet.placement import rank
from sandbox_service.wire.frames import Op
from tests.harness.town import OWN, Town, town_of
from tests.harness.waiting import until

NAMES = ("a", "b", "c")


@pytest.fixture
async def town():
    async with town_of(*NAMES) as town:
        for core in town.cores.values():
            core.takes_over = True
        yield town


def asked(town: Town) -> list[str]:
    """The supervisors that were asked to take something over."""
    return [
        name for name, core in town.cores.items() for each in core.handled if "take_over_from" in each.meta
    ]


async def test_what_has_no_owner_is_taken_over_by_the_first_that_does_not_drain(town):
    town.cores["a"].owner_on_record = ""
    town.cores["a"].draining = True
    first, second = [name for name in rank(OWN, NAMES) if name != "a"]
    town.cores[first].draining = True
    await town.call(Op.STEP, OWN)
    assert town.cores[second].instances == {OWN: 1}


async def test_an_owner_that_stays_away_loses_the_instance_though_ray_still_lists_it(town):
    await town.stop("a")
    new_owner = next(name for name in rank(OWN, NAMES) if name != "a")
    await town.call(Op.STEP, OWN)
    assert town.cores[new_owner].instances == {OWN: 1}


async def test_the_new_owner_is_asked_at_once_from_then_on(town):
    await town.stop("a")
    new_owner = next(name for name in rank(OWN, NAMES) if name != "a")
    for _ in range(3):
        await town.call(Op.STEP, OWN)
    assert town.cores[new_owner].instances == {OWN: 3}
    assert asked(town) == [new_owner]


async def test_the_fleet_is_not_looked_for_again_because_of_an_owner_that_is_gone(town):
    await town.stop("a", forget=True)
    for name in ("b", "c"):
        town.cores[name].owner_on_record = "a"
    await town.call(Op.STEP, OWN)
    before = town.known.refreshed
    await town.call(Op.STEP, OWN)
    assert town.known.refreshed == before


async def test_the_owner_has_the_instance_back_when_the_new_owner_knows_nothing_of_it(town):
    await town.stop("a")
    new_owner = next(name for name in rank(OWN, NAMES) if name != "a")
    await town.call(Op.STEP, OWN)
    core = await town.start("a")
    core.instances[OWN] = 0
    del town.cores[new_owner].instances[OWN]
    await town.call(Op.STEP, OWN)
    assert core.instances == {OWN: 1}


async def test_a_new_owner_that_goes_away_is_taken_over_from_in_its_turn(town):
    await town.stop("a")
    new_owner, last = (name for name in rank(OWN, NAMES) if name != "a")
    await town.call(Op.STEP, OWN)
    await town.stop(new_owner)
    await town.call(Op.STEP, OWN)
    assert town.cores[last].instances == {OWN: 1}
    assert [each.meta["take_over_from"] for each in town.cores[last].handled] == [new_owner]


async def test_a_call_waits_until_the_lease_of_the_dead_has_run_out(town):
    await town.stop("a", forget=True)
    # As supervisors with a shared store, which names the owner.
    new_owner = town.cores[rank(OWN, ("b", "c"))[0]]
    new_owner.held = 3
    for name in ("b", "c"):
        town.cores[name].owner_on_record = "a"
    await town.call(Op.STEP, OWN)
    assert new_owner.instances == {OWN: 1}
    assert len(asked(town)) == 4


async def test_the_owner_that_is_away_is_named_so_that_a_new_owner_is_found_though_another_is_asked(town):
    await town.stop("a")
    asked_first, new_owner = rank(OWN, ("b", "c"))
    town.cores[new_owner].instances[OWN] = 0
    # As in a shared store by now: another one has it, and its lease holds.
    town.cores[asked_first].owner_on_record = new_owner
    town.cores[asked_first].held = 1000
    await town.call(Op.STEP, OWN)
    assert [each.meta.get("take_over_from") for each in town.cores[asked_first].handled] == ["a"]
    assert [each.meta.get("take_over_from") for each in town.cores[new_owner].handled] == [None]
    assert town.cores[new_owner].instances == {OWN: 1}


async def answered_by_the_owner_that_comes_back(town) -> bool:
    """Start the owner again while a call asks others; whether it alone has answered the call."""
    call = asyncio.create_task(town.call(Op.STEP, OWN))
    await until(lambda: asked(town))
    core = await town.start("a")
    core.instances[OWN] = 0
    await call
    return core.instances == {OWN: 1}


async def test_an_owner_that_comes_back_while_its_lease_is_awaited_answers_itself(town):
    await town.stop("a", forget=True)
    for name in ("b", "c"):
        town.cores[name].owner_on_record = "a"
        town.cores[name].held = 1000
    assert await answered_by_the_owner_that_comes_back(town)


async def test_a_call_gives_up_at_its_deadline_when_the_lease_holds_for_longer(town):
    await town.stop("a")
    for name in ("b", "c"):
        town.cores[name].held = 1000
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN, timeout_s=0.3)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE


LACKS = {
    "image": ServiceError(ErrorCode.IMAGE_MISSING, "no image code"),
    "room": NodeFullError("no space left on device"),
}


@pytest.mark.parametrize("lacks", LACKS)
async def test_an_instance_is_left_to_the_next_node_by_one_without_image_or_room(town, lacks):
    await town.stop("a", forget=True)
    first, second = rank(OWN, ("b", "c"))
    town.cores[first].lacks = LACKS[lacks]
    for _ in range(2):
        await town.call(Op.STEP, OWN)
    assert town.cores[first].instances == {}
    assert town.cores[second].instances == {OWN: 2}
    assert sorted(asked(town)) == sorted([first, second])


async def test_an_instance_that_no_live_node_can_rebuild_is_one_error_until_its_lease_is_over(town):
    await town.stop("a", forget=True)
    for name in ("b", "c"):
        town.cores[name].lacks = LACKS["image"]
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN)
    problem = caught.value.problem()
    assert (problem.code, problem.retryable) == (ErrorCode.SUPERVISOR_UNAVAILABLE, True)
    assert problem.retry_after_s
    assert "on every node that was asked (node-b, node-c): no image code" in problem.detail
    for name in ("b", "c"):
        town.cores[name].lease_over = True
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN)
    assert caught.value.code is ErrorCode.INSTANCE_LOST


async def test_an_instance_that_no_live_node_could_rebuild_goes_on_with_the_node_that_comes_back(town):
    await town.stop("a", forget=True)
    for name in ("b", "c"):
        town.cores[name].lacks = LACKS["image"]
    with pytest.raises(ServiceError):
        await town.call(Op.STEP, OWN)
    core = await town.start("a")
    core.instances[OWN] = 0
    await town.call(Op.STEP, OWN)
    assert core.instances == {OWN: 1}


@pytest.mark.parametrize("away", ["drains", "is not reached"])
async def test_an_instance_waits_while_a_node_that_may_have_the_image_is_there(town, away):
    await town.stop("a", forget=True)
    town.cores["b"].lacks = LACKS["image"]
    town.cores["b"].lease_over = True
    if away == "drains":
        town.cores["c"].draining = True
    else:
        await town.stop("c")
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN, timeout_s=0.3)
    # The deadline falls into a pause between two attempts, or into an attempt.
    assert caught.value.code in (ErrorCode.SUPERVISOR_UNAVAILABLE, ErrorCode.DEADLINE_EXCEEDED)
    assert not any("last_resort" in frame.meta for frame in town.cores["b"].handled)


async def test_an_owner_that_may_only_be_restarting_is_waited_for_where_no_other_node_has_the_image(town):
    await town.stop("a")
    for name in ("b", "c"):
        town.cores[name].lacks = LACKS["image"]
    assert await answered_by_the_owner_that_comes_back(town)


async def test_a_create_with_a_key_is_answered_by_the_next_supervisor_when_the_lease_has_run_out(town):
    away, new_owner, other = rank("t\0k", NAMES)
    await town.stop(away)
    town.cores[new_owner].held = 2
    await town.create(key="k")
    await town.create(key="k")
    assert set(asked(town)) == {new_owner}
    assert town.cores[other].handled == []


async def test_a_create_that_one_node_cannot_take_is_claimed_by_the_next_supervisor(town):
    away, full, other = rank("t\0k", NAMES)
    await town.stop(away)
    town.cores[full].refusal = NodeFullError("no space left on device")
    await town.create(key="k", environment="code")
    assert set(asked(town)) == {full, other}
    assert [len(town.cores[name].instances) for name in (full, other)] == [0, 1]
    town.cores[other].refusal = NodeFullError("no space left on device")
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.CREATE, key="k", environment="code", timeout_s=0.3)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert asked(town) == [name for name, core in town.cores.items() for _ in core.handled]


async def test_a_create_of_one_that_is_not_reached_is_claimed_from_it(town):
    first, holder, other = rank("t\0k", NAMES)
    town.cores[first].refusals = [MovedError("executed elsewhere", holder)]
    await town.stop(holder)
    assert (await town.create(key="k")).startswith(f"{first}.")
    asked_again = town.cores[first].handled[1].meta
    assert (asked_again["take_over_from"], asked_again["moved_from"]) == (holder, first)
    assert town.cores[other].handled == []


async def test_a_create_waits_for_its_supervisor_while_the_lease_holds(town):
    away = rank("t\0k", NAMES)[0]
    await town.stop(away)
    for core in town.cores.values():
        core.held = 1000
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.CREATE, key="k", timeout_s=0.3)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE


@pytest.mark.parametrize("meta", [{}, {"key": "k"}], ids=["no key", "key"])
async def test_a_create_with_an_id_of_the_tenants_own_is_never_taken_over(town, meta):
    away = rank("mine", NAMES)[0]
    await town.stop(away)
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.CREATE, "mine", timeout_s=0.3, **meta)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert asked(town) == []


async def test_who_reads_the_status_in_a_record_is_not_taken_for_the_owner(town):
    await town.stop("a")
    for name in ("b", "c"):
        town.cores[name].owner_on_record = "a"
    assert (await town.call(Op.INSTANCES, OWN)).body == b"record"
    core = await town.start("a")
    core.instances[OWN] = 0
    assert (await town.call(Op.INSTANCES, OWN)).body == b"a"
    assert all(not town.cores[name].instances for name in ("b", "c"))
