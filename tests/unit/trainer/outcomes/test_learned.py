"""Rewards by trained models: normalized, bounded, capped, and never in place of a failure."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.episodes_played import played
from tests.harness.reward_folders import process_folder, reward_folder
from tests.harness.tiny_chat import tiny_folder
from trainer.config import RewardConfig
from trainer.config.learned_reward import LearnedRewardConfig, ProcessRewardConfig
from trainer.errors import ConfigError, RewardFailed
from trainer.outcomes.learned import LearnedRewards
from trainer.outcomes.opening import check_reward_models, open_learned
from trainer.reward import score
from trainer.reward_models.model import RewardModel
from trainer.reward_models.opening import ModelOpener
from trainer.reward_models.rows import ScoredRow

EPISODE = played({}, {"actions": 1.0}, tokens=[2, 3])
"""Two turns, that end after three and six tokens."""


def config(kind, *models, **settings):
    names = tuple(str(model) for model in models)
    if kind == "learned":
        return RewardConfig(outcome_weight=0.0, learned=LearnedRewardConfig(models=names, **settings))
    return RewardConfig(process=ProcessRewardConfig(models=names, **settings))


async def rewarded(settings, episode=EPISODE):
    (learned,) = open_learned(settings, Path(), tiny_folder())
    try:
        return await learned.add_reward(episode)
    finally:
        await learned.close()


def raw(folder):
    return float(RewardModel.load(folder).score_rows([ScoredRow((0,) * 6, (6,))])[0][0, 0])


async def test_the_score_of_the_whole_episode_is_at_its_last_turn(tmp_path) -> None:
    folder = reward_folder(tmp_path / "model", mean=0.5, deviation=2.0)
    settings = config("learned", folder, weight=3.0)
    episode = await rewarded(settings)
    first, last = (turn.terms for turn in episode.turns)
    assert first == {}
    assert last["actions"] == 1.0
    assert last["learned"] == pytest.approx((raw(folder) - 0.5) / 2, abs=1e-5)
    found = score(episode, settings, 5, 100)
    assert found.trajectory.reward == pytest.approx(3 * last["learned"])
    assert found.trajectory.terms["learned"] == pytest.approx(3 * last["learned"])
    assert found.turn_rewards == (0.0, pytest.approx(3 * last["learned"]))


async def test_models_are_opened_once_although_the_first_episode_is_cancelled(tmp_path) -> None:
    settings = config("learned", reward_folder(tmp_path / "model")).learned
    opener = ModelOpener(Path(), tiny_folder(), settings.reads, settings.timeout_s)
    begun, release, opened = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def open_held(name):
        opened.append(name)
        loop.call_soon_threadsafe(begun.set)
        release.wait()
        return opener.open_model(name)

    learned = LearnedRewards(settings, open_held)
    first = asyncio.create_task(learned.add_reward(EPISODE))
    await begun.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.create_task(learned.add_reward(EPISODE))
    await asyncio.sleep(0.1)
    release.set()
    assert "learned" in (await second).turns[-1].terms
    assert len(opened) == 1
    await learned.close()


@pytest.mark.parametrize("side", ["opponent", "partner"])
@pytest.mark.parametrize(("kind", "folder"), [("learned", reward_folder), ("process", process_folder)])
async def test_a_counterparts_turns_are_not_scored_and_change_no_score(tmp_path, kind, folder, side) -> None:
    settings = config(kind, folder(tmp_path / "model"))
    alone = await rewarded(settings)
    theirs = replace(EPISODE.segments[0], **{side: True})
    both = await rewarded(settings, replace(EPISODE, segments=(*EPISODE.segments, theirs)))
    assert both.segments == (*alone.segments, theirs)


@pytest.mark.parametrize(("kind", "folder"), [("learned", reward_folder), ("process", process_folder)])
async def test_a_model_whose_scores_are_not_numbers_gives_no_reward(tmp_path, kind, folder) -> None:
    made = folder(tmp_path / "model", weights=float("nan"))
    with pytest.raises(RewardFailed, match="no finite number"):
        await rewarded(config(kind, made))


class Busy:
    """A scorer that others keep busy for longer than an episode may be scored."""

    def __init__(self, scorer, seconds):
        self._scorer = scorer
        self._seconds = seconds

    async def score_rows(self, rows):
        await asyncio.sleep(self._seconds)
        return await self._scorer.score_rows(rows)

    async def close(self):
        await self._scorer.close()


async def test_the_wait_behind_other_episodes_does_not_count_as_scoring(tmp_path) -> None:
    folder, timeout_s = reward_folder(tmp_path / "model"), 0.5
    opener = ModelOpener(tmp_path, tiny_folder(), "tokens", timeout_s)

    def open_busy(name):
        opened = opener.open_model(name)
        return replace(opened, scorer=Busy(opened.scorer, 1.5 * timeout_s))

    rewards = LearnedRewards(LearnedRewardConfig(models=(str(folder),), timeout_s=timeout_s), open_busy)
    assert "learned" in (await rewards.add_reward(EPISODE)).turns[-1].terms
    await rewards.close()


async def test_an_ensemble_is_taken_at_its_bound_and_capped(tmp_path) -> None:
    folders = [reward_folder(tmp_path / f"model-{seed}", seed=seed) for seed in range(3)]
    single = [raw(folder) for folder in folders]
    least = await rewarded(config("learned", *folders, bound="min"))
    assert least.turns[-1].terms["learned"] == pytest.approx(min(single), abs=1e-5)
    capped = await rewarded(config("learned", *folders, bound="mean", most=-50.0))
    assert capped.turns[-1].terms["learned"] == -50.0


async def test_steps_get_probabilities_by_their_names_and_task_and_steps_add_up(tmp_path) -> None:
    folder = process_folder(tmp_path / "model", dimensions=("relevance", "correctness"))
    settings = config(
        "process", folder, weight=0.5, baseline=0.25, dimensions={"relevance": 1.0, "correctness": 2.0}
    )
    episode = await rewarded(settings)
    steps = [
        turn.terms["process/relevance"] + 2 * turn.terms["process/correctness"] - 0.25
        for turn in episode.turns
    ]
    assert all(0 < turn.terms["process/relevance"] < 1 for turn in episode.turns)
    found = score(episode, settings, 5, 100)
    # alpha x task + beta x sum of steps; the KL is subtracted by the learner.
    assert found.trajectory.reward == pytest.approx(1.0 + 0.5 * sum(steps))
    assert found.turn_rewards[0] == pytest.approx(0.5 * steps[0])


async def test_a_model_of_another_tokenizer_is_refused_or_reads_the_text(tmp_path) -> None:
    folder = reward_folder(tmp_path / "model")
    settings = config("learned", folder)
    (learned,) = open_learned(settings, Path(), tiny_folder("bytes"))
    with pytest.raises(ConfigError, match=r'another tokenizer than the policy.*reads="text"'):
        await learned.add_reward(EPISODE)


def test_unusable_models_are_found_before_the_run(tmp_path) -> None:
    process = process_folder(tmp_path / "process")
    cases = [
        (config("learned", tmp_path / "nowhere"), "no reward model at"),
        (config("learned", process), "is not a reward model of whole episodes"),
        (
            config("process", process, dimensions={"taste": 1.0}),
            "has no taste; its dimensions are correctness",
        ),
    ]
    # What a stage of the run is going to train cannot be there yet.
    check_reward_models(config("learned", "stage:reward"), tmp_path, tiny_folder())
    for settings, sentence in cases:
        with pytest.raises(ConfigError, match=sentence):
            check_reward_models(settings, tmp_path, tiny_folder())


async def test_an_episode_without_turns_has_no_learned_reward(tmp_path) -> None:
    empty = played()
    assert await rewarded(config("learned", tmp_path / "unopened"), empty) == empty
