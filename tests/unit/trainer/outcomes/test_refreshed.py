"""Process reward models are trained on fresh episodes while the policy moves, and a resumed run has them."""

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from tests.harness.episodes_played import played
from tests.harness.reward_folders import process_folder
from tests.harness.tiny_chat import tiny_folder
from trainer.batches.agreement import fresh_quality
from trainer.chat.folder import FURTHER_TEMPLATES
from trainer.config import RewardConfig
from trainer.errors import ConfigError
from trainer.outcomes.opening import check_reward_models, open_learned
from trainer.outcomes.refreshed import RefreshedRewards
from trainer.reward_models.model import RewardModel
from trainer.reward_models.opening import LocalScorer, ModelOpener
from trainer.reward_models.refreshing import find_refreshed, write_refreshed
from trainer.types import VersionSpan

GOOD, BAD = 7, 9
EVERY, FRESH = 2, 8
TIMEOUT_S = 1.0


def config(*folders, **refresh):
    given = {"every": EVERY, "episodes": FRESH, "updates": 20, "batch": 8, "learning_rate": 1e-3, **refresh}
    process = {"models": [str(folder) for folder in folders], "refresh": given}
    return RewardConfig.model_validate({"process": process})


def episode(number: int, version: int):
    """Two turns, which hold the token of good or of bad ones."""
    solved = number % 2 == 0
    found = played({}, {}, tokens=[2, 2], success=solved, score=float(solved))
    (segment,) = found.segments
    turns = tuple(
        replace(turn, versions=(VersionSpan(turn.start, turn.end, version),)) for turn in segment.turns
    )
    tokens = (3 + number % 11, *(GOOD if solved else BAD,) * (len(segment.token_ids) - 1))
    return replace(found, id=f"{number}.0", segments=(replace(segment, token_ids=tokens, turns=turns),))


async def quality(rewards, settings, version: int):
    given = [await rewards.add_reward(episode(number, version)) for number in range(FRESH)]
    return fresh_quality(given, settings.process.refresh), given


async def test_models_learn_from_fresh_episodes_after_these_were_scored(tmp_path) -> None:
    folders = [process_folder(tmp_path / f"steps-{seed}", seed=seed) for seed in range(2)]
    settings, run = config(*folders), tmp_path / "run"
    (rewards,) = open_learned(settings, run, tiny_folder())
    first, _ = await quality(rewards, settings, 0)
    same, _ = await quality(rewards, settings, EVERY - 1)
    assert same == first, "nothing is refreshed before it is due"
    before, _ = await quality(rewards, settings, EVERY)
    after, scored = await quality(rewards, settings, EVERY + 1)
    await rewards.close()
    assert after["reward/process_accuracy"] == 1.0
    assert after["reward/process_brier"] < before["reward/process_brier"] / 4

    (again,) = open_learned(settings, run, tiny_folder())
    resumed, scored_again = await quality(again, settings, EVERY + 1)
    await again.close()
    assert resumed["reward/process_brier"] == pytest.approx(after["reward/process_brier"], rel=1e-3)
    values = [
        [turn.terms["process/correctness"] for turn in each.turns] for each in (scored[0], scored_again[0])
    ]
    assert np.allclose(*values, atol=1e-5)


class SlowScorer(LocalScorer):
    """A refresh takes longer than an episode may wait for its reward."""

    def __init__(self, model, begun):
        super().__init__(model, TIMEOUT_S)
        self._begun = begun

    async def run_between(self, work):
        self._begun.set()

        def slow():
            time.sleep(1.5 * TIMEOUT_S)
            return work()

        return await super().run_between(slow)


async def test_episodes_that_end_during_a_refresh_wait_for_it_beyond_their_own_deadline(tmp_path) -> None:
    settings = config(process_folder(tmp_path / "steps"), updates=1)
    process = settings.process.model_copy(update={"timeout_s": TIMEOUT_S})
    opener = ModelOpener(tmp_path, tiny_folder(), process.reads, process.timeout_s)
    begun = asyncio.Event()

    def open_slow(name):
        opened = opener.open_model(name)
        return replace(opened, scorer=SlowScorer(opened.scorer.model, begun))

    rewards = RefreshedRewards(process, process.refresh, tmp_path / "refreshed", open_slow)
    for number in range(FRESH - 1):
        await rewards.add_reward(episode(number, EVERY))
    ending = [asyncio.create_task(rewards.add_reward(episode(FRESH - 1, EVERY)))]
    await begun.wait()
    ending += [asyncio.create_task(rewards.add_reward(episode(number, EVERY))) for number in range(40)]
    rewarded = await asyncio.gather(*ending)
    assert all("process/correctness" in each.turns[0].terms for each in rewarded)
    await rewards.close()


class HeldScorer(LocalScorer):
    """Work on the model begins when the test lets it, and fails as often as the test says."""

    def __init__(self, model, begun, release, failures):
        super().__init__(model, TIMEOUT_S)
        self._begun, self._release, self._failures = begun, release, failures

    async def run_between(self, work):
        self._begun.set()
        if self._failures:
            raise self._failures.pop()
        await self._release.wait()
        return await super().run_between(work)


class HeldEnsemble:
    """Two models whose refresh the test holds."""

    def __init__(self, folder, failures=()):
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        self.folder, self._failures = folder / "refreshed", list(failures)
        settings = config(
            *(process_folder(folder / f"steps-{seed}", seed=seed) for seed in range(2)), updates=1
        )
        self._opener = ModelOpener(folder, tiny_folder(), settings.process.reads, TIMEOUT_S)
        self.rewards = RefreshedRewards(
            settings.process, settings.process.refresh, self.folder, self._open_held
        )

    def _open_held(self, name):
        opened = self._opener.open_model(name)
        scorer = HeldScorer(opened.scorer.model, self.begun, self.release, self._failures)
        return replace(opened, scorer=scorer)

    async def score_all_but_one(self):
        for number in range(FRESH - 1):
            await self.rewards.add_reward(episode(number, EVERY))

    def written(self):
        return sorted(file.name for file in self.folder.iterdir()) if self.folder.exists() else []


async def test_a_refresh_is_completed_when_its_episode_is_cancelled(tmp_path) -> None:
    held = HeldEnsemble(tmp_path)
    await held.score_all_but_one()
    ending = asyncio.create_task(held.rewards.add_reward(episode(FRESH - 1, EVERY)))
    await held.begun.wait()
    ending.cancel()
    assert isinstance((await asyncio.gather(ending, return_exceptions=True))[0], asyncio.CancelledError)
    assert held.written() == []
    held.release.set()
    await held.rewards.close()
    assert held.written() == ["0", "1", "refresh.json"]


async def test_a_refresh_that_failed_is_made_with_the_next_episode(tmp_path) -> None:
    held = HeldEnsemble(tmp_path, failures=[OSError("no room")])
    await held.score_all_but_one()
    with pytest.raises(OSError, match="no room"):
        await held.rewards.add_reward(episode(FRESH - 1, EVERY))
    assert held.written() == []
    held.release.set()
    await held.rewards.add_reward(episode(FRESH, EVERY))
    await held.rewards.close()
    assert held.written() == ["0", "1", "refresh.json"]


def test_a_refreshed_model_is_found_when_its_writing_was_cut_short(tmp_path) -> None:
    model, folder = RewardModel.load(process_folder(tmp_path / "steps")), tmp_path / "refreshed" / "0"
    (model.folder / FURTHER_TEMPLATES).mkdir()
    (model.folder / FURTHER_TEMPLATES / "tool_use.jinja").write_text("{{ tools }}")
    assert find_refreshed(folder) is None
    write_refreshed(model, folder)
    written = {file.name for file in folder.iterdir()}
    folder.rename(folder.with_name(".0.former"))  # as a kill leaves it between two renames
    assert find_refreshed(folder) == folder
    assert (folder / FURTHER_TEMPLATES / "tool_use.jinja").read_text() == "{{ tools }}"
    write_refreshed(RewardModel.load(folder), folder)
    assert {file.name for file in folder.iterdir()} == written
    assert [file.name for file in folder.parent.iterdir()] == ["0"]


def test_a_dimension_that_a_model_lacks_is_refused(tmp_path) -> None:
    settings = config(process_folder(tmp_path / "steps"), dimension="taste")
    with pytest.raises(ConfigError, match=r"refresh\.dimension: .* has no taste"):
        check_reward_models(settings, tmp_path, tiny_folder())


def test_served_models_cannot_be_refreshed() -> None:
    with pytest.raises(ValidationError, match="no served models"):
        config("http://127.0.0.1:8700")
