"""Labels become rows of recorded episodes; an interrupted labelling goes on."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.recorded import episode, message
from trainer.advantage.step_estimation import traced_back
from trainer.config.recorded import RecordedFiles
from trainer.config.step_labels import OutcomeRule
from trainer.errors import ConfigError, DataError, LabelFailed, RewardFailed
from trainer.recorded.reading import read_episodes
from trainer.step_labels.labelling import label_episodes
from trainer.step_labels.labels import StepLabels, with_labels
from trainer.step_labels.outcome import OutcomeLabeller

EPISODES = [episode("t/1", f"say {row}", row, success=row > 1, score=row / 4) for row in range(1, 4)]


class Labeller:
    """Labels with what is given by the said text, and keeps which were asked for."""

    def __init__(self, **answers) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def label_steps(self, episode):
        said = episode.turns[0].content
        self.asked.append(said)
        found = self.answers.get(said.replace(" ", "_"), 0.5)
        if isinstance(found, Exception):
            raise found
        return StepLabels({"correctness": (found,)})


def label(folder: Path, labeller, episodes=EPISODES, settings="one", **more):
    file = folder / "labels.jsonl"
    found = asyncio.run(label_episodes(episodes, labeller, file, settings, concurrency=2, **more))
    return found, read_episodes(RecordedFiles(files=(file,)))


def test_rows_have_labels_and_step_rewards_in_the_order_of_the_file(tmp_path) -> None:
    found, rows = label(tmp_path, Labeller(say_2=1.0))
    assert [row.step_labels for row in rows] == [{"correctness": (each,)} for each in (0.5, 1.0, 0.5)]
    assert [row.step_rewards for row in rows] == [(0.5,), (1.0,), (0.5,)]
    assert (found.episodes, found.steps, found.unlabelled) == (3, 3, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["labels.jsonl"]


def test_an_interrupted_labelling_goes_on_where_it_was(tmp_path) -> None:
    with pytest.raises(RewardFailed):
        label(tmp_path, Labeller(say_3=RewardFailed("stop")))
    part = tmp_path / "labels.jsonl.part"
    part.write_text(part.read_text() + '{"messages": [{"ro')
    second = Labeller(say_3=1.0)
    _, rows = label(tmp_path, second, resume=True)
    assert second.asked == ["say 3"]
    assert [row.step_rewards for row in rows] == [(0.5,), (0.5,), (1.0,)]
    assert not part.exists()


def test_a_failed_episode_is_left_out_and_tried_again(tmp_path) -> None:
    failing = Labeller(say_1=LabelFailed("rows.jsonl:1: its box died", "sandbox"))
    found, rows = label(tmp_path, failing)
    assert (len(rows), found.failed, found.failures) == (2, 1, {"sandbox": 1})
    assert found.reasons == ("rows.jsonl:1: its box died",)
    found, rows = label(tmp_path, Labeller(), resume=True)
    assert (len(rows), found.failed) == (3, 0)


def test_a_part_is_neither_overwritten_nor_mixed_with_other_settings(tmp_path) -> None:
    label(tmp_path, Labeller(say_1=LabelFailed("no", "sandbox")))
    with pytest.raises(ConfigError, match="go on with it by --resume"):
        label(tmp_path, Labeller())
    with pytest.raises(ConfigError, match="other settings"):
        label(tmp_path, Labeller(), settings="two", resume=True)
    with pytest.raises(ConfigError, match="nothing to resume"):
        label(tmp_path / "elsewhere", Labeller(), resume=True)


def test_without_any_label_there_is_no_file(tmp_path) -> None:
    with pytest.raises(DataError, match="was never graded"):
        label(
            tmp_path, Labeller(say_1=LabelFailed("rows.jsonl:1: was never graded", "ungraded")), EPISODES[:1]
        )
    assert not (tmp_path / "labels.jsonl").exists()


def test_labels_stand_beside_those_of_other_dimensions() -> None:
    first = with_labels(EPISODES[0], StepLabels({"correctness": (0.5,)}))
    both = with_labels(first, StepLabels({"progress": (None,)}))
    assert both.step_labels == {"correctness": (0.5,), "progress": (None,)}
    assert both.step_rewards == (0.5,)


def test_an_outcome_is_traced_back_with_a_discount() -> None:
    assert traced_back(1.0, 3, 0.5) == (0.25, 0.5, 1.0)


def test_the_outcome_is_the_success_or_the_score() -> None:
    two = replace(
        EPISODES[2], messages=(*EPISODES[2].messages, message("user", "?"), message("assistant", "!"))
    )

    def labels(**settings):
        found = asyncio.run(OutcomeLabeller(OutcomeRule(**settings)).label_steps(two))
        return found.labels

    assert labels(discount=0.5) == {"correctness": (0.5, 1.0)}
    assert labels(outcome="score", dimension="value") == {"value": (0.75, 0.75)}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"success": None, "score": None}, "never graded"),
        ({"failure_class": "sandbox"}, "a failure ended the episode"),
        ({"success": None, "score": 2.0}, "not from 0 to 1"),
    ],
)
def test_an_episode_without_outcome_has_no_labels(changes, cause: str) -> None:
    with pytest.raises(LabelFailed, match=cause):
        asyncio.run(OutcomeLabeller(OutcomeRule()).label_steps(replace(EPISODES[0], **changes)))
