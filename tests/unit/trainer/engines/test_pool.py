import asyncio
from dataclasses import replace

import pytest

from tests.fakes.rollout_engines import FakeEngine
from tests.harness.waiting import settle, until
from trainer.config import RunConfig
from trainer.engines.generation import Finish, GenerationRequest, Sampling
from trainer.engines.pool import EnginePool, PoolLimits
from trainer.errors import EngineError, Stalled
from trainer.types import EpisodeKey, TaskRef, VersionSpan

LIMITS = PoolLimits(
    generate_s=20, revive_s=20, load_s=20, health_every_s=0.01, hung_s=0.05, retry_s=0.001, answer_s=0.05
)


def request(episode="0.0", tokens=4, seed=7):
    return GenerationRequest(
        EpisodeKey(episode, TaskRef("e", "s", "t"), 0), (1, 2, 3), tokens, Sampling(), seed
    )


async def test_what_an_update_interrupts_is_continued_from_its_tokens_and_versions_are_joined():
    engine = FakeEngine(cut=[2, 0, 1])
    pool = EnginePool([engine], LIMITS)
    engine.version = 4
    generation = await pool.generate(request(tokens=6))

    assert generation.token_ids == (4, 5, 6, 7, 8, 9)
    assert generation.logprobs == (-4.0, -5.0, -6.0, -7.0, -8.0, -9.0)
    assert generation.finish is Finish.STOP
    assert generation.versions == (VersionSpan(0, 6, 4),)
    assert [asked.max_tokens for asked in engine.asked] == [6, 4, 4, 3]
    assert [len(asked.token_ids) for asked in engine.asked] == [3, 5, 5, 6]


async def test_a_continuation_does_not_draw_with_the_random_numbers_of_its_beginning():
    engine = FakeEngine(cut=[2, 1])
    await EnginePool([engine], LIMITS).generate(request(tokens=6))
    assert len({asked.seed for asked in engine.asked}) == 3


async def test_a_turn_that_was_interrupted_at_its_last_token_has_used_up_its_length():
    generation = await EnginePool([FakeEngine(cut=[4])], LIMITS).generate(request(tokens=4))
    assert (len(generation.token_ids), generation.finish) == (4, Finish.LENGTH)


async def test_an_episode_stays_with_its_engine_and_many_episodes_use_all():
    engines = [FakeEngine(name=f"engine-{index}") for index in range(4)]
    pool = EnginePool(engines, LIMITS)
    for _ in range(3):
        await pool.generate(request("5.1"))
    assert sorted(len(engine.asked) for engine in engines) == [0, 0, 0, 3]
    await asyncio.gather(*(pool.generate(request(f"{index}.0")) for index in range(80)))
    assert all(engine.asked for engine in engines)


async def test_a_dead_engine_is_left_for_another_and_used_again_when_it_is_back():
    engines = [FakeEngine(name=f"engine-{index}") for index in range(2)]
    pool = EnginePool(engines, LIMITS)
    await pool.generate(request())
    (first,) = [engine for engine in engines if engine.asked]
    (other,) = [engine for engine in engines if engine is not first]
    first.die()
    await pool.generate(request())
    assert len(other.asked) == 1
    first.dead = False
    await until(lambda: all(health.up for health in pool.health()))
    await pool.generate(request())
    assert len(first.asked) == 2
    assert {health.name: health.losses for health in pool.health()} == {first.name: 1, other.name: 0}
    await pool.close()


async def test_requests_wait_for_the_only_engine_to_start_again():
    engine = FakeEngine(slow=asyncio.Event())
    pool = EnginePool([engine], LIMITS)
    turn = asyncio.create_task(pool.generate(request()))
    await until(lambda: engine.asked)
    engine.die()
    await settle()
    assert not turn.done()
    engine.dead = False
    assert (await turn).token_ids == (4, 5, 6, 7)
    await pool.close()


async def test_without_any_engine_left_a_request_fails_at_once():
    engine = FakeEngine(buried=True)
    with pytest.raises(EngineError, match="no engine is left"):
        await EnginePool([engine], LIMITS).generate(request())


async def test_an_engine_that_was_given_up_is_used_again_when_it_is_back_after_all():
    engine = FakeEngine()
    engine.die()
    pool = EnginePool([engine], replace(LIMITS, revive_s=0.01))
    with pytest.raises(EngineError, match="no engine is left"):
        await pool.generate(request())
    engine.dead = False
    await until(lambda: all(health.up for health in pool.health()))
    assert (await pool.generate(request())).token_ids == (4, 5, 6, 7)
    await pool.close()


async def test_a_request_that_nobody_answers_ends_at_its_deadline_and_names_the_turn():
    engine = FakeEngine(slow=asyncio.Event())
    pool = EnginePool([engine], replace(LIMITS, generate_s=0.02))
    with pytest.raises(Stalled, match=r"turn 0 of episode 3\.2"):
        await pool.generate(request("3.2"))


async def test_a_turn_ends_at_its_limit_with_what_was_sampled_over_all_continuations():
    engine = FakeEngine(cut=[2], late=1)
    generation = await EnginePool([engine], LIMITS).generate(replace(request(tokens=6), limit_s=5.0))
    assert (generation.token_ids, generation.finish) == ((4, 5, 6), Finish.TIMEOUT)
    assert 0 < engine.asked[1].limit_s < engine.asked[0].limit_s <= 5.0


async def test_a_limit_within_which_nothing_was_sampled_is_a_stall_and_no_end_of_the_turn():
    engine = FakeEngine(late=0)
    with pytest.raises(Stalled, match=r"turn 0 of episode 3\.2"):
        await EnginePool([engine], LIMITS).generate(replace(request("3.2"), limit_s=5.0))


async def test_an_engine_that_does_not_answer_is_killed_and_its_request_goes_on_elsewhere():
    engine = FakeEngine(slow=asyncio.Event(), silent=True)
    async with EnginePool([engine], LIMITS) as pool:
        turn = asyncio.create_task(pool.generate(request()))
        await until(lambda: engine.deaths)
        engine.dead, engine.slow = False, None
        assert (await turn).token_ids == (4, 5, 6, 7)
    assert engine.deaths == 1


async def test_health_is_watched_on_after_an_unexpected_error():
    engine = FakeEngine(puzzled=2)
    async with EnginePool([engine], LIMITS) as pool:
        await until(lambda: not engine.puzzled)
        engine.silent = True
        await until(lambda: engine.deaths)
        (health,) = pool.health()
    assert health.losses == 1


async def test_health_is_watched_on_and_the_engine_is_lost_when_it_cannot_be_killed():
    engines = [FakeEngine("hung", silent=True, tough=1), FakeEngine("other")]
    async with EnginePool(engines, replace(LIMITS, load_s=0.05)) as pool:
        await until(lambda: engines[0].deaths)
        engines[1].silent = True
        await until(lambda: engines[1].deaths)
        assert [health.losses for health in pool.health()] == [1, 1]


async def test_an_engine_that_hangs_while_it_comes_back_is_killed_and_given_up_until_it_answers():
    engine = FakeEngine(dead=True, hangs_after=3)
    pool = EnginePool([engine], replace(LIMITS, revive_s=0.1, load_s=0.1))
    with pytest.raises(EngineError, match="no engine is left"):
        await pool.generate(request())
    await until(lambda: engine.deaths)
    assert not engine.silent
    engine.dead = False
    await until(lambda: all(health.up for health in pool.health()))
    assert (await pool.generate(request())).token_ids == (4, 5, 6, 7)
    await pool.close()


async def test_an_engine_that_hangs_each_time_it_comes_back_is_killed_each_time():
    engine = FakeEngine(dead=True, hangs_after=1, tough=1)
    pool = EnginePool([engine], replace(LIMITS, revive_s=0.05, load_s=0.05))
    with pytest.raises(EngineError, match="no engine is left"):
        await pool.generate(request())
    await until(lambda: engine.deaths)
    engine.hangs_after = 1
    await until(lambda: engine.deaths == 2)
    await pool.close()


async def test_an_engine_that_loads_longer_than_it_may_be_away_is_given_up_and_not_killed():
    engine = FakeEngine(loading=asyncio.Event())
    pool = EnginePool([engine], replace(LIMITS, revive_s=0.05, load_s=60))
    engine.die()
    turn = asyncio.create_task(pool.generate(request()))
    await settle()
    engine.dead = False
    with pytest.raises(EngineError, match="no engine is left"):
        await turn
    await asyncio.sleep(0.1)
    assert engine.deaths == 1
    engine.loading.set()
    await until(lambda: all(health.up for health in pool.health()))
    await pool.close()


@pytest.mark.parametrize(("sync_s", "load_s"), [(40, 90), (200, 200)])
def test_an_engine_that_returns_may_take_as_long_as_a_start_or_a_weight_sync(sync_s, load_s):
    config = RunConfig.model_validate({"engine": {"start_timeout_s": 90}, "sync": {"timeout_s": sync_s}})
    limits = PoolLimits.of(config.engine, config.sync, config.rollout)
    assert (limits.revive_s, limits.load_s) == (90, load_s)


async def test_scores_survive_a_death_too():
    engine = FakeEngine(dead=True)
    pool = EnginePool([engine], LIMITS)
    scored = asyncio.create_task(pool.score_tokens((1, 2, 3)))
    await settle()
    engine.dead = False
    assert await scored == (0.0, 0.0, 0.0)
    await pool.close()
