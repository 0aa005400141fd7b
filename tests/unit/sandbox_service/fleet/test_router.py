from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, NodeFullError, ServiceError, VersionMismatchError
from sandbox_service.fleet import takeover_search
from sandbox_service.fleet.placement import rank
from sandbox_service.wire.frames import Op
from tests.harness.town import OWN, town_of
from tests.harness.waiting import settle

NAMES = ("a", "b", "c")


@pytest.fixture
async def town():
    async with town_of() as town:
        yield town


async def test_an_id_of_our_own_goes_straight_to_the_supervisor_it_names(town):
    for name in ("a", "b", "c"):
        await town.start(name)
    instance_id = await town.create()
    owner = instance_id.split(".")[0]
    before = town.handled()
    reply = await town.call(Op.STEP, instance_id)
    assert reply.body == b"body"
    assert town.handled() == {**before, owner: before[owner] + 1}
    assert town.cores[owner].handled[-1].meta == {"request_id": "r", "tenant": "t"}


async def test_new_instances_are_spread(town):
    for name in ("a", "b", "c"):
        await town.start(name)
    await asyncio.gather(*(town.create() for _ in range(30)))
    assert set(town.handled().values()) == {10}


async def test_a_create_that_is_sent_again_reaches_the_same_supervisor(town):
    for name in ("a", "b", "c", "d"):
        await town.start(name)
    for number in range(10):
        key = f"key-{number}"
        (first, again) = [(await town.create(key=key)).split(".")[0] for _ in range(2)]
        assert first == again == rank(f"t\0{key}", "abcd")[0]


async def test_a_callers_own_id_is_found_after_the_fleet_has_grown(town):
    await town.start("a")
    ids = [f"mine-{number}" for number in range(20)]
    for instance_id in ids:
        await town.create(instance_id)
    for name in ("b", "c"):
        await town.start(name)
    for instance_id in ids:
        await town.call(Op.STEP, instance_id)
    assert town.cores["a"].instances == dict.fromkeys(ids, 1)


async def test_an_unknown_id_is_asked_of_everybody_once(town):
    for name in ("a", "b", "c"):
        await town.start(name)
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, "mine")
    assert caught.value.code is ErrorCode.UNKNOWN_INSTANCE
    first = rank("mine", "abc")[0]
    assert town.handled() == {**dict.fromkeys("abc", 1), first: 2}
    assert [frame.meta.get("take_over_from") for frame in town.cores[first].handled] == [None, ""]


async def test_an_unknown_id_of_our_own_is_asked_of_its_supervisor_only(town):
    for name in ("a", "b"):
        await town.start(name)
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN)
    assert caught.value.code is ErrorCode.UNKNOWN_INSTANCE
    assert town.handled() == {"a": 1, "b": 0}


async def test_no_supervisor_takes_over_while_one_that_may_have_it_is_away(town):
    for name in ("a", "b", "c"):
        await town.start(name)
    away = rank("mine", "abc")[1]
    await town.stop(away)
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, "mine", timeout_s=0.5)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert not any("take_over_from" in frame.meta for core in town.cores.values() for frame in core.handled)


async def test_a_callers_id_with_a_dot_is_still_the_callers(town):
    for name in ("a", "b"):
        await town.start(name)
    assert await town.create("run7.episode1") == "run7.episode1"
    for _ in range(3):
        assert (await town.call(Op.STEP, "run7.episode1")).body == b"body"
    assert town.known.refreshed == 0


async def test_the_fleet_is_not_refreshed_at_every_look_at_an_instance_of_a_supervisor_that_left(town):
    core = await town.start("b")
    core.owner_on_record = ""
    for _ in range(3):
        assert (await town.call(Op.INSTANCES, OWN)).body == b"record"
    assert town.known.refreshed == 1


async def test_a_supervisors_error_keeps_its_code_and_wait(town):
    core = await town.start("a")
    core.refusal = ServiceError(ErrorCode.QUOTA_EXCEEDED, "too many", retry_after_s=7.0)
    with pytest.raises(ServiceError) as caught:
        await town.create()
    error = caught.value
    assert (error.code, error.detail, error.retry_after_s) == (ErrorCode.QUOTA_EXCEEDED, "too many", 7.0)


@pytest.mark.parametrize("code", [ErrorCode.DRAINING, ErrorCode.QUEUE_FULL])
async def test_a_new_instance_goes_to_the_next_when_one_has_no_room(town, code):
    for name in ("a", "b"):
        await town.start(name)
    town.cores["a"].refusal = ServiceError(code, retry_after_s=1.0)
    assert {(await town.create()).split(".")[0] for _ in range(4)} == {"b"}


async def test_when_no_supervisor_has_room_the_first_refusal_is_raised(town):
    for name in ("a", "b"):
        core = await town.start(name)
        core.refusal = ServiceError(ErrorCode.QUEUE_FULL, retry_after_s=1.0)
    with pytest.raises(ServiceError) as caught:
        await town.create()
    assert caught.value.code is ErrorCode.QUEUE_FULL


IMAGE_MISSING = ServiceError(ErrorCode.IMAGE_MISSING, "the image code:1 does not exist; build it")
NODE_FULL = NodeFullError("no space left on device")


@pytest.mark.parametrize("refusal", [IMAGE_MISSING, NODE_FULL], ids=["image", "disk"])
@pytest.mark.parametrize("named", [{}, {"key": "k"}, {"instance_id": "mine"}], ids=["free", "key", "id"])
async def test_a_create_goes_on_to_a_node_that_has_image_and_room(town, named, refusal):
    for name in ("a", "b"):
        await town.start(name)
    lacking = rank("mine" if "instance_id" in named else "t\0k", "ab")[0]
    town.cores[lacking].refusal = refusal
    instance_id = await town.create(**named, environment="code")
    assert [name for name in "ab" if instance_id in town.cores[name].instances] == [*{*"ab"} - {lacking}]


async def test_a_shared_store_without_room_is_no_matter_of_one_node(town):
    for name in ("a", "b"):
        core = await town.start(name)
        core.refusal = ServiceError(ErrorCode.STORAGE_FULL, "the trajectory store cannot be written")
    with pytest.raises(ServiceError, match="trajectory store"):
        await town.create(environment="code")
    assert sum(town.handled().values()) == 1


@pytest.mark.parametrize("refusal", [IMAGE_MISSING, NODE_FULL], ids=["image", "disk"])
async def test_a_node_that_refuses_attracts_no_further_instances_of_the_environment(town, refusal):
    for name in ("a", "b"):
        await town.start(name)
    town.cores["a"].refusal = refusal
    for _ in range(10):
        await town.create(environment="code")
    assert town.handled() == {"a": 1, "b": 10}
    town.cores["a"].refusal = None
    before = town.handled()["a"]
    for _ in range(4):
        await town.create(environment="echo")
    # Other environments avoid a full disk, but not a node that lacks this one's image.
    assert town.handled()["a"] == before + (2 if refusal is IMAGE_MISSING else 0)


async def test_an_image_that_no_node_has_is_one_error_that_names_the_nodes(town):
    for name in ("a", "b"):
        core = await town.start(name)
        core.refusal = IMAGE_MISSING
    for meta in ({}, {"key": "k"}):
        with pytest.raises(ServiceError) as caught:
            await town.create(environment="code", **meta)
        assert caught.value.code is ErrorCode.IMAGE_MISSING
        wanted = "on every node that was asked (node-a, node-b): the image code:1 does not exist; build it"
        assert caught.value.detail == wanted


async def test_nodes_that_refuse_for_different_reasons_are_one_error_that_names_each(town):
    for name, refusal in (("a", NODE_FULL), ("b", IMAGE_MISSING)):
        core = await town.start(name)
        core.refusal = refusal
    with pytest.raises(ServiceError) as caught:
        await town.create(environment="code")
    assert caught.value.code is ErrorCode.STORAGE_FULL
    wanted = "node-a: no space left on device; node-b: the image code:1 does not exist; build it"
    assert caught.value.detail == wanted


async def test_nodes_without_the_image_are_asked_again_once_the_others_are_full(town):
    for name in ("a", "b"):
        await town.start(name)
    town.cores["a"].refusal = IMAGE_MISSING
    await asyncio.gather(*(town.create(environment="code") for _ in range(2)))
    town.cores["b"].refusal = ServiceError(ErrorCode.QUEUE_FULL, retry_after_s=1.0)
    with pytest.raises(ServiceError) as caught:
        await town.create(environment="code")
    assert caught.value.code is ErrorCode.QUEUE_FULL, "it may have room later, so that a client repeats it"
    town.cores["a"].refusal = None
    assert (await town.create(environment="code")).startswith("a.")


async def test_a_create_sent_again_finds_its_instance_beside_a_node_without_the_image(town):
    for name in ("a", "b"):
        await town.start(name)
    lacking, other = rank("t\0k", "ab")
    town.cores[lacking].refusal = IMAGE_MISSING
    await town.create(environment="code")
    await town.create(environment="code")
    for _ in range(2):
        await town.create(environment="code", key="k")
    handled = [core.handled[-2:] for core in (town.cores[lacking], town.cores[other])]
    assert [[frame.meta.get("key") for frame in frames] for frames in handled] == [["k"] * 2] * 2


async def test_a_new_instance_does_not_wait_for_a_supervisor_that_is_away(town):
    for name in ("a", "b"):
        await town.start(name)
    await town.stop("a")
    assert {(await town.create()).split(".")[0] for _ in range(4)} == {"b"}


async def test_a_step_waits_for_its_supervisor_to_come_back_under_a_new_secret(town):
    core = await town.start("a")
    core.instances[OWN] = 0
    await town.call(Op.STEP, OWN)
    await town.stop("a")
    waiting = asyncio.create_task(town.call(Op.STEP, OWN))
    await settle()
    again = await town.start("a")
    again.instances[OWN] = 0
    assert (await waiting).body == b"body"
    assert again.instances[OWN] == 1


async def test_a_supervisor_that_stays_away_is_unavailable_at_the_deadline(town):
    await town.start("a")
    await town.stop("a")
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN, timeout_s=0.3)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_a_supervisor_is_not_waited_for_as_long_as_an_operation_may_take(town, monkeypatch):
    monkeypatch.setattr(takeover_search, "SEARCH_S", 0.3)
    await town.start("a")
    await town.stop("a")
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.EVALUATE, OWN, timeout_s=3600)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_a_step_that_left_is_never_sent_again(town):
    core = await town.start("a")
    core.instances[OWN] = 0
    core.gate.clear()
    step = asyncio.create_task(town.call(Op.STEP, OWN))
    await asyncio.wait_for(core.arrived.wait(), 5)
    await town.stop("a")
    again = await town.start("a")
    again.instances[OWN] = 0
    with pytest.raises(ServiceError) as caught:
        await step
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
    assert again.handled == []


async def test_an_answer_past_the_deadline_is_deadline_exceeded(town):
    core = await town.start("a")
    core.instances[OWN] = 0
    core.gate.clear()
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.STEP, OWN, timeout_s=0.05)
    assert caught.value.code is ErrorCode.DEADLINE_EXCEEDED


async def test_a_fleet_of_none_is_unavailable(town):
    with pytest.raises(ServiceError) as caught:
        await town.call(Op.CREATE, timeout_s=0.05)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_the_id_of_a_supervisor_that_left_the_fleet_is_asked_of_the_others(town):
    for name in ("a", "b"):
        await town.start(name)
    town.cores["b"].instances[OWN] = 3
    await town.stop("a", forget=True)
    assert (await town.call(Op.STEP, OWN)).body == b"body"
    assert town.cores["b"].instances[OWN] == 4


async def test_everybody_is_asked_and_those_that_are_away_or_refuse_are_named(town):
    for name in ("a", "b", "c", "d"):
        await town.start(name)
    await town.stop("b")
    town.cores["d"].refusal = ServiceError(ErrorCode.QUEUE_FULL, "too many", retry_after_s=3.0)
    town.known.excluded["old"] = ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "another version")
    replies = await town.router.call_all(Op.STATS, tenant="t", meta={}, body=b"", timeout_s=1)
    assert [json.loads(reply.body)["name"] for reply in replies.frames] == ["a", "c"]
    assert replies.missing == ("b", "d", "old")
    refusals = [(name, *error.args) for name, error in replies.refusals.items()]
    assert refusals == [("d", ErrorCode.QUEUE_FULL, "too many", 3.0)]


async def test_everybody_away_is_an_error(town):
    await town.start("a")
    await town.stop("a")
    with pytest.raises(ServiceError) as caught:
        await town.router.call_all(Op.STATS, tenant="t", meta={}, body=b"", timeout_s=0.3)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_no_task_is_left_after_the_end(town):
    await town.start("a")
    await town.create()
    with contextlib.suppress(ServiceError):
        await town.call(Op.STEP, "nobody", timeout_s=0.1)
    await town.router.close()
    await town.stop("a")
    assert {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}} == set()


async def test_a_fleet_of_another_version_is_named_as_such(town):
    town.known.excluded["a"] = VersionMismatchError("a", "10.0.0.7", "0.9.1", "1.0.0")
    with pytest.raises(VersionMismatchError, match=r"version 0\.9\.1 .* version 1\.0\.0: install") as caught:
        await town.call(Op.CREATE, timeout_s=0.05)
    assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert town.router.excluded_supervisors() == {"a": caught.value.detail}


async def test_a_supervisor_that_names_the_owner_is_followed(town):
    for name in NAMES:
        await town.start(name)
    town.cores["a"].refusal = MovedError("not here", "b")
    town.cores["b"].instances[OWN] = 0
    assert (await town.call(Op.STEP, OWN)).body == b"body"
    assert town.handled() == {"a": 1, "b": 1, "c": 0}


async def test_an_instance_that_keeps_moving_is_an_error_and_no_endless_search(town):
    for name in NAMES:
        await town.start(name)
    town.cores["a"].refusal = MovedError("not here", "b")
    town.cores["b"].refusal = MovedError("not here", "a")
    with pytest.raises(ServiceError, match="moved"):
        await town.call(Op.STEP, OWN)


async def test_the_status_of_an_instance_that_moved_is_asked_of_its_owner(town):
    for name in NAMES:
        await town.start(name)
    town.cores["a"].owner_on_record = "b"
    town.cores["b"].instances[OWN] = 0
    assert (await town.call(Op.INSTANCES, OWN)).body == b"b"
    assert (await town.call(Op.INSTANCES, OWN)).body == b"b"
    assert town.handled() == {"a": 1, "b": 2, "c": 0}, "the owner is remembered"


async def test_a_create_that_another_one_is_executing_is_passed_on_to_it(town):
    for name in NAMES:
        await town.start(name)
    first, holder, other = rank("t\0k", NAMES)
    town.cores[first].refusals = [MovedError("executed elsewhere", holder)]
    assert (await town.create(key="k")).startswith(f"{holder}.")
    assert town.handled() == {first: 1, holder: 1, other: 0}
    assert town.cores[holder].handled[0].meta["moved_from"] == first


@pytest.mark.parametrize("refusal", ["moved", "disk", "drain"])
async def test_a_create_that_the_other_one_does_not_finish_comes_back_to_its_supervisor(town, refusal):
    for name in NAMES:
        await town.start(name)
    first, holder, other = rank("t\0k", NAMES)
    refusals = {
        "moved": MovedError("not executed here any more", first),
        "disk": NodeFullError("no space left on device"),
        "drain": ServiceError(ErrorCode.DRAINING),
    }
    town.cores[first].refusals = [MovedError("executed elsewhere", holder)]
    town.cores[holder].refusals = [refusals[refusal]]
    assert (await town.create(key="k", environment="code")).startswith(f"{first}.")
    assert town.handled() == {first: 2, holder: 1, other: 0}
