"""Process reward models are trained on fresh episodes while the policy moves, and a resumed run has them."""

import asyncio
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from tests.harness.episodes_played import played
from tests.harness.reward_folders import process_folder
from tests.harness.tiny_chat import tiny_folder
from tests.harness.waiting import settle, until
from trainer.batches.agreement import fresh_quality
from trainer.chat.folder import FURTHER_TEMPLATES
from trainer.config import RewardConfig
from trainer.errors import ConfigError, RewardFailed
from trainer.outcomes.opening import check_reward_models, open_learned
from trainer.outcomes.refreshed import RefreshedRewards
from trainer.reward_models.model import RewardModel
from trainer.reward_models.opening import LocalScorer, MemberModel, ModelOpener
from trainer.reward_models.queue import QueueClosed
from trainer.reward_models.refreshing import write_refreshed
from trainer.reward_models.rows import TokenReader
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
    """Work on the models begins when the test lets it, and fails where the test says: an error for each."""

    def __init__(self, model, begun, release, failures):
        super().__init__(model, TIMEOUT_S)
        self._begun, self._release, self._failures = begun, release, failures

    async def run_between(self, work):
        self._begun.set()
        if self._failures and (failure := self._failures.pop(0)):
            raise failure
        await self._release.wait()
        return await super().run_between(work)


WRITTEN = ["refresh.json", f"version-{EVERY}"]


class HeldEnsemble:
    """Two models whose refresh the test holds."""

    def __init__(self, folder, failures=()):
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        self.folder, self.failures = folder / "refreshed", list(failures)
        self.models = []
        settings = config(
            *(process_folder(folder / f"steps-{seed}", seed=seed) for seed in range(2)), updates=1
        )
        self._opener = ModelOpener(folder, tiny_folder(), settings.process.reads, TIMEOUT_S)
        self.rewards = RefreshedRewards(
            settings.process, settings.process.refresh, self.folder, self._open_held
        )

    def _open_held(self, name):
        opened = self._opener.open_model(name)
        scorer = HeldScorer(opened.scorer.model, self.begun, self.release, self.failures)
        self.models.append(opened.scorer.model)
        return replace(opened, scorer=scorer)

    async def score_all_but_one(self, version=EVERY):
        for number in range(FRESH - 1):
            await self.rewards.add_reward(episode(number, version))

    async def score_one(self, version=EVERY):
        await self.rewards.add_reward(episode(FRESH - 1, version))

    def weights(self):
        return [
            np.concatenate([each.numpy().ravel() for each in model.trunk.state_dict().values()])
            for model in self.models
        ]

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
    assert held.written() == WRITTEN


async def test_at_the_end_a_refresh_behind_a_pass_that_hangs_fails(tmp_path) -> None:
    passes, go = [], (threading.Event(), threading.Event())

    class HeldModel(RewardModel):
        """The test lets each pass go that begins when there are enough episodes for a refresh."""

        def score_rows(self, rows):
            passes.append(rows)
            if len(passes) >= FRESH:
                go[len(passes) - FRESH].wait()
            return super().score_rows(rows)

    model = HeldModel.load(process_folder(tmp_path / "steps"))
    opened = MemberModel("steps", model.note, LocalScorer(model, TIMEOUT_S, end_s=0.05), TokenReader())
    process = config(model.folder).process
    rewards = RefreshedRewards(process, process.refresh, tmp_path / "refreshed", lambda _: opened, end_s=0.05)
    for number in range(FRESH - 1):
        await rewards.add_reward(episode(number, EVERY))
    refreshing = asyncio.create_task(rewards.add_reward(episode(FRESH - 1, EVERY)))
    await until(lambda: len(passes) == FRESH)
    hung = asyncio.create_task(rewards.add_reward(episode(FRESH, EVERY)))
    await settle()
    go[0].set()
    await asyncio.wait({hung})  # now the refresh begins
    await settle()
    async with asyncio.timeout(60):
        await rewards.close()
        found = await asyncio.gather(refreshing, hung, return_exceptions=True)
    go[1].set()
    assert [type(each) for each in found] == [QueueClosed, RewardFailed]
    assert not (tmp_path / "refreshed").exists()


WORK = ["train 1", "train 2", "write 1", "write 2"]
"""Of a refresh, in order."""


@pytest.mark.parametrize("place", range(len(WORK)), ids=WORK)
async def test_a_refresh_that_failed_changes_no_model_and_is_made_with_the_next_episode(
    tmp_path, place
) -> None:
    held = HeldEnsemble(tmp_path, failures=[None] * place + [OSError("no room")])
    held.release.set()
    await held.score_all_but_one()
    before = held.weights()
    with pytest.raises(OSError, match="no room"):
        await held.score_one()
    assert np.array_equal(held.weights(), before)
    assert "refresh.json" not in held.written()
    await held.score_one()
    await held.rewards.close()
    assert held.written() == WRITTEN
    assert not any(map(np.array_equal, held.weights(), before))


async def test_a_resumed_run_has_all_models_of_the_latest_refresh_that_was_completed(tmp_path) -> None:
    held = HeldEnsemble(tmp_path)
    held.release.set()
    await held.score_all_but_one()
    await held.score_one()
    refreshed = held.weights()
    held.failures[:] = [None] * WORK.index("write 2") + [OSError("no room")]
    await held.score_all_but_one(2 * EVERY)
    with pytest.raises(OSError, match="no room"):
        await held.score_one(2 * EVERY)
    await held.rewards.close()

    resumed = HeldEnsemble(tmp_path)
    resumed.release.set()
    await resumed.score_all_but_one(EVERY)
    assert np.array_equal(resumed.weights(), refreshed)
    await resumed.score_one(2 * EVERY)
    await resumed.rewards.close()
    assert resumed.written() == ["refresh.json", f"version-{2 * EVERY}"]


def test_a_refreshed_model_has_the_further_files_of_the_given_one(tmp_path) -> None:
    model = RewardModel.load(process_folder(tmp_path / "steps"))
    (model.folder / FURTHER_TEMPLATES).mkdir()
    (model.folder / FURTHER_TEMPLATES / "tool_use.jinja").write_text("{{ tools }}")
    first, second = tmp_path / "first", tmp_path / "second"
    write_refreshed(model, model.folder, first)
    write_refreshed(RewardModel.load(first), first, second)
    assert (second / FURTHER_TEMPLATES / "tool_use.jinja").read_text() == "{{ tools }}"
    assert {file.name for file in second.iterdir()} == {file.name for file in first.iterdir()}


def test_a_dimension_that_a_model_lacks_is_refused(tmp_path) -> None:
    settings = config(process_folder(tmp_path / "steps"), dimension="taste")
    with pytest.raises(ConfigError, match=r"refresh\.dimension: .* has no taste"):
        check_reward_models(settings, tmp_path, tiny_folder())


def test_served_models_cannot_be_refreshed() -> None:
    with pytest.raises(ValidationError, match="no served models"):
        config("http://127.0.0.1:8700")
