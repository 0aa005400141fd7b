import pytest

from tests.fakes.model_core import FakeCore
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
    await engine.begin(contents=True)
    await engine.update({"path": "there"})
    await engine.finish(3)


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
def core():
    return FakeCore(context=10)


async def test_it_starts_with_what_was_synced_last(core, options):
    note_snapshot(options.snapshots, WeightSnapshot(5, "weights", options.snapshots / "five"))
    engine = Engine(core, options)
    await engine.catch_up()
    assert core.calls == [("load_snapshot", {"path": str(options.snapshots / "five")})]
    assert (await engine.status()).version == 5
    assert (await engine.generate(request())).versions == (VersionSpan(0, 4, 5),)


async def test_an_engine_that_sleeps_takes_its_weights_back_then_new_ones_and_then_its_cache(core, options):
    engine = Engine(core, options)
    await engine.sleep("keep")
    await engine.sleep("keep")
    assert (await engine.status()).paused
    await engine.wake("weights")
    await whole_update(engine)
    await engine.wake("kv_cache")
    names = [name if name not in ("sleep", "wake") else (name, what) for name, what in core.calls]
    assert names == [
        ("sleep", "keep"),
        ("wake", "weights"),
        "record_weights",
        "start_weight_update",
        "update_weights",
        "weights_receipt",
        "finish_weight_update",
        ("wake", "kv_cache"),
    ]
    status = await engine.status()
    assert (status.paused, status.version) == (False, 3)


async def test_an_engine_that_is_awake_stays_so(core, options):
    engine = Engine(core, options)
    await engine.wake("weights")
    await engine.wake("kv_cache")
    assert core.calls == []


async def test_an_engine_without_room_to_wake_is_lost(core, options):
    engine = Engine(core, options)
    await engine.sleep("abort")
    core.refuses = "kv_cache"
    with pytest.raises(EngineLost, match="could not take its memory back: RuntimeError: no room"):
        await engine.wake("kv_cache")
    assert engine.failure() is not None


async def test_it_is_version_0_when_nothing_was_synced(core, options):
    engine = Engine(core, options)
    await engine.catch_up()
    assert core.calls == []
    assert (await engine.status()).version == 0


async def test_it_starts_with_the_adapter_that_was_synced_last(core, options):
    note_snapshot(options.snapshots, WeightSnapshot(5, "adapter", options.snapshots / "five"))
    engine = Engine(core, options)
    await engine.catch_up()
    assert (await engine.generate(request())).versions == (VersionSpan(0, 4, 5),)
    assert core.marked == [0]


async def test_a_turn_gets_no_more_than_what_is_left_of_the_context(core, options):
    engine = Engine(core, options)
    assert len((await engine.generate(request(prompt=8))).token_ids) == 2
    full = await engine.generate(request(prompt=10))
    assert (full.token_ids, full.finish) == ((), Finish.LENGTH)


async def test_an_update_takes_its_steps_and_is_marked_at_the_end(core, options):
    engine = Engine(core, options)
    await engine.pause("keep")
    await engine.begin(contents=True)
    await engine.update({"path": "there"})
    assert core.marked == []
    await engine.finish(3)
    await engine.resume()
    methods = [method for method, _ in core.calls]
    assert methods == [
        "record_weights",
        "start_weight_update",
        "update_weights",
        "weights_receipt",
        "finish_weight_update",
    ]
    assert await engine.receipts() == (3, ("of weights_receipt",))
    assert core.marked == [3]
    assert engine.failure() is None


@pytest.mark.parametrize("method", ["start_weight_update", "update_weights", "finish_weight_update"])
async def test_an_update_that_fails_leaves_an_engine_of_no_use(core, options, method):
    core.refuses = method
    engine = Engine(core, options)
    with pytest.raises(EngineLost, match=method):
        await whole_update(engine)
    assert engine.failure() is not None
    with pytest.raises(EngineLost):
        await engine.status()


async def test_half_an_update_is_never_sampled_with(core, options):
    engine = Engine(core, options)
    await engine.begin(contents=True)
    with pytest.raises(EngineLost, match="never finished"):
        await engine.resume()
    assert engine.failure() is not None


async def test_requests_keep_the_adapter_that_they_began_with_and_the_same_version_may_come_twice(
    core, options
):
    engine = Engine(core, options)
    await engine.adopt(4, "first")
    await engine.generate(request())
    await engine.adopt(4, "second")
    await engine.generate(request())
    first, second = (draw.adapter for draw in core.drawn)
    assert (first.folder, second.folder) == ("first", "second")
    assert first.number != second.number
