import asyncio
from dataclasses import replace

import pytest

from tests.fakes.engine_backend import FakeBackend
from tests.harness.waiting import until
from trainer.engines.engine import Engine
from trainer.engines.generation import Finish, GenerationRequest, Sampling
from trainer.engines.options import EngineOptions
from trainer.errors import EngineLost
from trainer.types import EpisodeKey, TaskRef, VersionSpan
from trainer.weight_sync.snapshots import WeightSnapshot, note_snapshot


def request(prompt=3, tokens=4):
    key = EpisodeKey("0.0", TaskRef("e", "s", "t"), 0)
    return GenerationRequest(key, (1,) * prompt, tokens, Sampling())


async def whole_update(engine):
    await engine.begin_update(contents=True)
    await engine.update_weights({"path": "there"})
    await engine.finish_update(3)


@pytest.fixture
def options(tmp_path):
    return EngineOptions(
        model=tmp_path,
        device="cpu",
        dtype="float32",
        in_process=True,
        transfer="shared_file",
        snapshots=tmp_path / "snapshots",
    )


@pytest.fixture
def backend():
    return FakeBackend(context=10)


async def test_it_starts_with_what_was_synced_last(backend, options):
    note_snapshot(options.snapshots, WeightSnapshot(5, "weights", options.snapshots / "five"))
    engine = Engine(backend, options)
    await engine.load_newest_snapshot()
    assert backend.calls == [("load_snapshot", {"path": str(options.snapshots / "five")})]
    assert (await engine.get_status()).version == 5
    assert (await engine.generate(request())).versions == (VersionSpan(0, 4, 5),)


async def test_a_sleeping_engine_takes_its_weights_back_then_new_ones_and_then_its_cache(backend, options):
    engine = Engine(backend, options)
    await engine.enter_sleep("keep")
    await engine.enter_sleep("keep")
    assert (await engine.get_status()).paused
    await engine.wake_up("weights")
    await whole_update(engine)
    await engine.wake_up("kv_cache")
    names = [name if name not in ("enter_sleep", "wake_up") else (name, what) for name, what in backend.calls]
    assert names == [
        ("enter_sleep", "keep"),
        ("wake_up", "weights"),
        "record_weights",
        "start_weight_update",
        "update_weights",
        "weights_receipt",
        "finish_weight_update",
        ("wake_up", "kv_cache"),
    ]
    status = await engine.get_status()
    assert (status.paused, status.version) == (False, 3)


async def test_an_engine_that_is_awake_stays_so(backend, options):
    engine = Engine(backend, options)
    await engine.wake_up("weights")
    await engine.wake_up("kv_cache")
    assert backend.calls == []


async def test_an_engine_without_room_to_wake_is_lost(backend, options):
    engine = Engine(backend, options)
    await engine.enter_sleep("abort")
    backend.refuses = "kv_cache"
    with pytest.raises(EngineLost, match="could not restore its memory: RuntimeError: no room"):
        await engine.wake_up("kv_cache")
    assert engine.find_failure() is not None


async def test_it_is_version_0_when_nothing_was_synced(backend, options):
    engine = Engine(backend, options)
    await engine.load_newest_snapshot()
    assert backend.calls == []
    assert (await engine.get_status()).version == 0


async def test_it_starts_with_the_adapter_that_was_synced_last(backend, options):
    note_snapshot(options.snapshots, WeightSnapshot(5, "adapter", options.snapshots / "five"))
    engine = Engine(backend, options)
    await engine.load_newest_snapshot()
    assert (await engine.generate(request())).versions == (VersionSpan(0, 4, 5),)
    assert backend.marked == [0]


async def test_a_turn_gets_no_more_than_what_is_left_of_the_context(backend, options):
    engine = Engine(backend, options)
    assert len((await engine.generate(request(prompt=8))).token_ids) == 2
    full = await engine.generate(request(prompt=10))
    assert (full.token_ids, full.finish) == ((), Finish.LENGTH)


async def test_an_update_takes_its_steps_and_is_marked_at_the_end(backend, options):
    engine = Engine(backend, options)
    await engine.pause_generation("keep")
    await engine.begin_update(contents=True)
    await engine.update_weights({"path": "there"})
    assert backend.marked == []
    await engine.finish_update(3)
    await engine.resume_generation()
    methods = [method for method, _ in backend.calls]
    assert methods == [
        "record_weights",
        "start_weight_update",
        "update_weights",
        "weights_receipt",
        "finish_weight_update",
    ]
    assert await engine.get_receipts() == (3, ("of weights_receipt",))
    assert backend.marked == [3]
    assert engine.find_failure() is None


@pytest.mark.parametrize("method", ["start_weight_update", "update_weights", "finish_weight_update"])
async def test_an_update_that_fails_leaves_an_engine_of_no_use(backend, options, method):
    backend.refuses = method
    engine = Engine(backend, options)
    with pytest.raises(EngineLost, match=method):
        await whole_update(engine)
    assert engine.find_failure() is not None
    with pytest.raises(EngineLost):
        await engine.get_status()


OCCUPYING = {
    "update": lambda engine: engine.update_weights({"path": "there"}),
    "snapshot": lambda engine: engine.load_newest_snapshot(),
    "connection": lambda engine: engine.connect_learner({}),
    "adapter": lambda engine: engine.load_adapter(1, "there"),
    "sleep": lambda engine: engine.enter_sleep("keep"),
}


@pytest.mark.parametrize("call", OCCUPYING.values(), ids=OCCUPYING)
async def test_an_engine_that_loads_or_sleeps_answers_for_its_model_which_cannot(backend, options, call):
    note_snapshot(options.snapshots, WeightSnapshot(5, "weights", options.snapshots / "five"))
    engine = Engine(backend, options)
    backend.free.clear()
    occupying = asyncio.create_task(call(engine))
    await until(lambda: backend.calls or backend.adapters)
    assert (await asyncio.wait_for(engine.get_status(), 30)).version == 0
    assert backend.checks == 0
    backend.free.set()
    await occupying
    await engine.get_status()
    assert backend.checks == 1


async def test_an_engine_whose_wake_up_takes_long_answers_meanwhile(backend, options):
    engine = Engine(backend, options)
    await engine.enter_sleep("keep")
    backend.free.clear()
    waking = asyncio.create_task(engine.wake_up("kv_cache"))
    await until(lambda: ("wake_up", "kv_cache") in backend.calls)
    await asyncio.wait_for(engine.get_status(), 30)
    backend.free.set()
    await waking


async def test_a_load_that_passes_the_limit_of_a_weight_sync_excuses_no_a_silent_model(backend, options):
    engine = Engine(backend, replace(options, sync_s=0.0))
    backend.free.clear()
    loading = asyncio.create_task(engine.update_weights({"path": "there"}))
    await until(lambda: backend.calls)
    asked = asyncio.create_task(engine.get_status())
    await until(lambda: backend.checks)
    assert not asked.done()
    backend.free.set()
    await asyncio.gather(loading, asked)


@pytest.mark.parametrize("name", ["update", "connection"])
async def test_an_engine_that_waits_for_a_learner_over_nccl_is_asked_since_the_learner_may_be_gone(
    backend, options, name
):
    engine = Engine(backend, replace(options, transfer="nccl"))
    backend.free.clear()
    waiting = asyncio.create_task(OCCUPYING[name](engine))
    await until(lambda: backend.calls)
    asked = asyncio.create_task(engine.get_status())
    await until(lambda: backend.checks)
    assert not asked.done()
    backend.free.set()
    await asyncio.gather(waiting, asked)


async def test_half_an_update_is_never_sampled_with(backend, options):
    engine = Engine(backend, options)
    await engine.begin_update(contents=True)
    with pytest.raises(EngineLost, match="was not finished"):
        await engine.resume_generation()
    assert engine.find_failure() is not None


async def test_requests_keep_the_adapter_that_they_began_with_and_the_same_version_may_come_twice(
    backend, options
):
    engine = Engine(backend, options)
    await engine.load_adapter(4, "first")
    await engine.generate(request())
    await engine.load_adapter(4, "second")
    await engine.generate(request())
    first, second = (request.adapter for request in backend.requests)
    assert (first.folder, second.folder) == ("first", "second")
    assert first.number != second.number
