"""A reward function gives an episode its outcome, or a failure that names it; never a made-up number."""

import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.fakes.wordless_error import WordlessError
from tests.harness.episodes_played import played
from trainer.errors import RewardFailed, TrainerError
from trainer.outcomes.function import MOST_HUNG, FunctionOutcome

EPISODE = played({})


def raises(error):
    raise error


def outcomes(function, timeout_s=30.0, **options):
    return FunctionOutcome("mine:reward", function, options, timeout_s)


async def test_its_number_is_the_outcome() -> None:
    assert await outcomes(lambda episode: episode.score / 4).find_outcome(EPISODE) == 0.25
    assert await outcomes(lambda episode: np.float32(0.5)).find_outcome(EPISODE) == 0.5


async def test_it_gets_its_options() -> None:
    assert await outcomes(lambda episode, *, weight: weight, weight=3).find_outcome(EPISODE) == 3.0


async def test_it_may_be_a_coroutine_function() -> None:
    async def reward(episode):
        await asyncio.sleep(0)
        return 0.75

    assert await outcomes(reward).find_outcome(EPISODE) == 0.75


@pytest.mark.parametrize(
    ("reward", "cause"),
    [
        (lambda episode: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda episode: raises(WordlessError()), "raised WordlessError"),
        (lambda episode: exit(3), "raised RuntimeError: SystemExit: 3"),
        (lambda episode: float("nan"), "returned nan, which is no finite number"),
        (lambda episode: float("inf"), "returned inf, which is no finite number"),
        (lambda episode: "good", "returned str, not a number"),
        (lambda episode: None, "returned NoneType, not a number"),
        (lambda episode: np.zeros(2), "returned ndarray, not a number"),
        (lambda episode: int("9" * 400), r"returned a number beyond 1e\+15 in magnitude"),
        (lambda episode: np.array(10**400, dtype=object), r"returned a number beyond 1e\+15 in magnitude"),
        (lambda episode: -1e200, r"returned -1e\+200, a number beyond 1e\+15 in magnitude"),
        (lambda episode: next(iter(())), "raised RuntimeError: StopIteration"),
    ],
    ids=[
        "raises",
        "wordless",
        "exits",
        "nan",
        "inf",
        "text",
        "none",
        "array",
        "long",
        "long_array",
        "beyond",
        "stops",
    ],
)
async def test_anything_but_a_finite_number_is_a_failure_that_says_why(reward, cause) -> None:
    with pytest.raises(RewardFailed, match=cause) as caught:
        await outcomes(reward).find_outcome(EPISODE)
    assert "'mine:reward'" in str(caught.value)


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        (asyncio.CancelledError("its own"), "raised CancelledError: its own"),
        (SystemExit(3), "raised SystemExit: 3"),
        (StopIteration(), "raised RuntimeError: coroutine raised StopIteration"),
    ],
    ids=["cancels", "exits", "stops"],
)
async def test_a_coroutine_function_that_ends_itself_fails_its_episode_alone(raised, cause) -> None:
    async def reward(episode):
        raise raised

    with pytest.raises(RewardFailed, match=cause):
        await outcomes(reward).find_outcome(EPISODE)


async def test_a_cancelled_episode_is_no_failure_of_its_reward_function() -> None:
    begun = asyncio.Event()

    async def reward(episode):
        begun.set()
        await asyncio.get_running_loop().create_future()

    episode = asyncio.create_task(outcomes(reward).find_outcome(EPISODE))
    await begun.wait()
    episode.cancel()
    with pytest.raises(asyncio.CancelledError):
        await episode


async def test_one_that_hangs_fails_at_its_deadline_and_others_go_on() -> None:
    release = threading.Event()

    def reward(episode):
        if episode.id == "hangs":
            release.wait()
        return 1.0

    source = outcomes(reward, timeout_s=0.01)
    try:
        with pytest.raises(RewardFailed, match=r"was not done within 0\.01 s"):
            await source.find_outcome(_named("hangs"))
    finally:
        release.set()
    assert await outcomes(reward).find_outcome(EPISODE) == 1.0


async def test_after_several_threads_that_hang_the_run_ends() -> None:
    release = threading.Event()
    source = outcomes(lambda episode: release.wait(), timeout_s=0.001)
    failures = []
    try:
        for _ in range(MOST_HUNG):
            with pytest.raises(TrainerError) as caught:
                await source.find_outcome(EPISODE)
            failures.append(caught.value)
    finally:
        release.set()
    assert [isinstance(each, RewardFailed) for each in failures] == [True] * (MOST_HUNG - 1) + [False]
    assert f"hung for {MOST_HUNG} episodes" in str(failures[-1])


async def test_a_timeout_of_its_own_is_no_deadline() -> None:
    def reward(episode):
        raise TimeoutError("its own")

    with pytest.raises(RewardFailed, match="raised TimeoutError: its own"):
        await outcomes(reward).find_outcome(EPISODE)


def _named(name):
    return replace(EPISODE, id=name)
