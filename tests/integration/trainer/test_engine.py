"""A real engine in a Ray actor, from the first token to its death under load."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
ray = pytest.importorskip("ray", reason="Ray is not installed")

from tests.fakes.weight_owner import ModelOwner  # noqa: E402
from tests.harness.learning import small_model  # noqa: E402
from tests.harness.local_ray import local_ray  # noqa: E402
from trainer.config import RunConfig  # noqa: E402
from trainer.engines.fleet import engine_handles, start_engines  # noqa: E402
from trainer.engines.generation import Finish, GenerationRequest, Sampling  # noqa: E402
from trainer.engines.pool import EnginePool  # noqa: E402
from trainer.errors import EngineError, StaleWeights  # noqa: E402
from trainer.types import EpisodeKey, TaskRef, VersionSpan  # noqa: E402
from trainer.weight_sync.snapshots import clear_snapshots, snapshot_folder  # noqa: E402
from trainer.weight_sync.sync import make_weight_sync  # noqa: E402

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.ray,
    pytest.mark.slow,
    # Ray's own modules warn about event loops and subprocesses that they leave to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

WORDS = 128
LONG = 1500
"""Tokens that keep an engine busy for a second or two."""
EXACT = 1e-4


@pytest.fixture(scope="module")
def cluster():
    """Ray on this machine."""
    with local_ray(num_cpus=2):
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Tied embeddings, so that every weight sync has to think of the output head."""
    return small_model(tmp_path_factory.mktemp("model"), tied=True, hidden=128, words=WORDS, context=2048)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    base = tmp_path_factory.mktemp("run")
    return RunConfig.model_validate(
        {"name": "engines", "root": base, "engine": {"kv_cache_mib": 64}, "sync": {"timeout_s": 120}}
    )


@pytest.fixture(scope="module")
def engine(cluster, run, model):
    (engine,) = start_engines(run.engine_settings, model, "cpu")
    yield engine
    engine.stop()
    clear_snapshots(snapshot_folder(run.folder, run.sync.folder))


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        pytest.param(
            {"in_process": False, "args": {"num_gpu_blocks_override": 2}},
            "ValueError: To serve at least one request with the model's max seq len",
            id="in a process of vLLM's own",
        ),
        pytest.param({"args": {"quantization": "fp8"}}, "float32 is not supported", id="in the actor"),
    ],
)
def test_an_engine_that_does_not_start_names_the_cause_in_one_line(cluster, run, model, engine, why):
    broken = run.engine.model_copy(update={"start_timeout_s": 150.0, **engine})
    name = "without-room" if broken.args.get("num_gpu_blocks_override") else "wrong-type"
    settings = run.model_copy(update={"name": name, "engine": broken}).engine_settings
    with pytest.raises(EngineError, match=f"{name}-engine-0 did not start: ") as caught:
        start_engines(settings, model, "cpu")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def learner(model):
    return ModelOwner(model)


def request(tokens: int, seed: int = 0, **sampling: object) -> GenerationRequest:
    key = EpisodeKey(f"{seed}.0", TaskRef("none", "none", "none"), seed)
    prompt = tuple(int(token) for token in np.random.default_rng(seed).integers(0, WORDS, 40))
    return GenerationRequest(key, prompt, tokens, Sampling(**sampling), seed=seed)


def difference(learner, asked, generation, start=0, end=None, temperature=1.0):
    """Between the engine's log-probabilities of the tokens [start, end) and the learner's."""
    expected = learner.logprobs(asked.token_ids + generation.token_ids, temperature)[len(asked.token_ids) :]
    return np.abs(np.asarray(generation.logprobs) - expected)[start:end].max()


async def test_log_probabilities_are_those_of_the_distribution_that_was_sampled_from(engine, run, learner):
    weight_sync = make_weight_sync(run.sync_settings, [engine], learner, rank=0)
    weight_sync.sync_weights(0)
    hot = [request(30, seed, temperature=1.7) for seed in range(40)]
    async with EnginePool([engine]) as pool:
        generations = await asyncio.gather(*(pool.generate(each) for each in hot))
        again = await pool.generate(hot[3])
        stopped = await pool.generate(request(200, 1, stop_ids=(5, 6, 7, 8, 9)))
        scored = await pool.score_tokens(hot[0].token_ids)

    for asked, generation in zip(hot, generations, strict=True):
        assert difference(learner, asked, generation, temperature=1.7) < EXACT
        assert generation.finish is Finish.LENGTH
        assert generation.versions == (VersionSpan(0, 30, 0),)
    assert again.token_ids == generations[3].token_ids
    assert stopped.finish is Finish.STOP
    assert stopped.token_ids[-1] in (5, 6, 7, 8, 9)
    assert np.abs(np.asarray(scored) - learner.logprobs(hot[0].token_ids)).max() < EXACT


async def test_a_prompt_that_fills_the_context_leaves_no_room_and_one_that_nearly_does_leaves_little(engine):
    full = replace(request(10), token_ids=(3,) * 2048)
    nearly = replace(request(10), token_ids=(3,) * 2045)
    async with EnginePool([engine]) as pool:
        nothing, little = await pool.generate(full), await pool.generate(nearly)
    assert (nothing.token_ids, nothing.finish) == ((), Finish.LENGTH)
    assert (len(little.token_ids), little.finish) == (3, Finish.LENGTH)


async def test_a_turn_that_reaches_its_time_limit_is_what_was_sampled_until_then(engine):
    async with EnginePool([engine]) as pool:
        await pool.generate(request(2))
        cut, whole = await asyncio.gather(
            pool.generate(replace(request(LONG), limit_s=0.3)), pool.generate(request(40, 1))
        )
    assert cut.finish is Finish.TIMEOUT
    assert 0 < len(cut.token_ids) == len(cut.logprobs) < LONG
    assert (len(whole.token_ids), whole.finish) == (40, Finish.LENGTH)


async def test_synced_weights_are_those_that_are_sampled_with_also_where_embeddings_are_tied(
    engine, run, learner
):
    weight_sync = make_weight_sync(run.sync_settings, [engine], learner, rank=0)
    asked = request(40)
    async with EnginePool([engine]) as pool:
        for version in (1, 2):
            learner.move(0.05, seed=version)
            report = weight_sync.report(version)
            generation = await pool.generate(asked)
            assert report.agreement is not None
            assert report.agreement.worst < EXACT
            assert difference(learner, asked, generation) < EXACT
            assert generation.versions == (VersionSpan(0, 40, version),)


def test_an_engine_with_other_weights_than_the_learner_is_found_out(engine, run, learner):
    weight_sync = make_weight_sync(run.sync_settings, [engine], learner, rank=0)
    weight_sync.sync_weights(3)
    named = dict(learner.model.named_parameters())
    stale = {name: tensor.detach().clone() for name, tensor in named.items()}
    learner.move(0.01)
    learner.named_weights = lambda: iter(stale.items())
    with pytest.raises(StaleWeights, match="engines-engine-0"):
        weight_sync.sync_weights(4)


@pytest.mark.parametrize("in_flight", ["keep", "abort"])
async def test_a_turn_outlives_a_weight_sync_and_knows_which_token_is_whose(
    engine, run, model, learner, in_flight
):
    run = run.model_copy(update={"rollout": run.rollout.model_copy(update={"in_flight": in_flight})})
    weight_sync = make_weight_sync(run.sync_settings, [engine], learner, rank=0)
    weight_sync.sync_weights(5)
    before = ModelOwner(model)
    asked = [request(LONG, seed) for seed in range(4)]
    async with EnginePool([engine]) as pool:
        turns = [asyncio.create_task(pool.generate(each)) for each in asked]
        await asyncio.sleep(0.3)
        learner.move(0.05)
        await asyncio.to_thread(weight_sync.sync_weights, 6)
        generations = await asyncio.gather(*turns)

    for turn, generation in zip(asked, generations, strict=True):
        former, latter = generation.versions
        assert (former.version, latter.version) == (5, 6)
        assert (former.start, former.end, latter.end) == (0, latter.start, LONG)
        assert difference(before, turn, generation, end=former.end) < EXACT
        assert difference(learner, turn, generation, start=former.end) < EXACT


async def test_a_turn_waits_while_its_engine_sleeps_and_goes_on_with_the_weights_of_the_weight_sync(
    cluster, run, model, learner
):
    """By vLLM's own sleep; its build for CPUs stops and goes on likewise, and leaves the memory as it is."""
    apart = run.engine.model_copy(update={"in_process": False, "sleep": True})
    run = run.model_copy(update={"name": "sleeper", "engine": apart})
    awake = run.model_copy(update={"engine": apart.model_copy(update={"sleep": False})})
    (engine,) = start_engines(awake.engine_settings, model, "cpu")
    try:
        weight_sync = make_weight_sync(run.sync_settings, [engine], learner, rank=0)
        weight_sync.sync_weights(0)
        asked = request(LONG)
        async with EnginePool([engine]) as pool:
            turn = asyncio.create_task(pool.generate(asked))
            async with asyncio.timeout(60):
                while not (await engine.check_health()).running:  # noqa: ASYNC110 - an engine has no event for it
                    await asyncio.sleep(0.05)
            await asyncio.to_thread(weight_sync.sleep_engines)
            status = await engine.check_health()
            assert (status.paused, status.running) == (True, 1)
            learner.move(0.05, seed=1)
            await asyncio.to_thread(weight_sync.sync_weights, 1)
            generation = await turn
        assert not (await engine.check_health()).paused
        last = generation.versions[-1]
        assert (len(generation.token_ids), last.version) == (LONG, 1)
        assert difference(learner, asked, generation, start=last.start) < EXACT
    finally:
        engine.stop()
        clear_snapshots(snapshot_folder(run.folder, run.sync.folder))


async def test_an_engine_that_is_killed_under_load_comes_back_with_the_newest_weights(engine, run, learner):
    weight_sync = make_weight_sync(run.sync_settings, [engine], learner, rank=0)
    learner.move(0.05, seed=7)
    weight_sync.sync_weights(7)
    (handle,) = engine_handles(run.engine_settings)
    alive = await handle.check_health()
    asked = [request(LONG, seed) for seed in range(8)]
    async with EnginePool([handle]) as pool:
        turns = [asyncio.create_task(pool.generate(each)) for each in asked]
        await asyncio.sleep(0.3)
        os.kill(alive.process, signal.SIGKILL)
        generations = await asyncio.gather(*turns)
        (health,) = pool.health()
    risen = await handle.check_health()

    assert health.losses == 1
    assert risen.incarnation != alive.incarnation
    assert risen.version == 7
    for turn, generation in zip(asked, generations, strict=True):
        assert generation.versions == (VersionSpan(0, LONG, 7),)
        assert difference(learner, turn, generation) < EXACT


async def test_an_update_that_breaks_off_ends_the_engine_and_a_weight_sync_finds_the_next_one(
    engine, run, learner
):
    learner.move(0.05, seed=8)
    alive = await engine.check_health()
    await asyncio.to_thread(engine.begin_update(True).result, 60)
    report = await asyncio.to_thread(make_weight_sync(run.sync_settings, [engine], learner, rank=0).report, 8)
    risen = await engine.check_health()

    assert report.lost == ()
    assert report.agreement is not None
    assert report.agreement.worst < EXACT
    assert risen.incarnation != alive.incarnation
    assert risen.version == 8
    assert not risen.paused
