"""Rows of messages from elsewhere: marks of turns, numbers as names, the developer's role."""

import json
from pathlib import Path

import pytest

from trainer.config.recorded import RecordedFiles
from trainer.errors import DataError
from trainer.recorded.episode_rows import write_episodes
from trainer.recorded.reading import read_episodes
from trainer.recorded.types import RecordedEpisode

ASK = {"role": "user", "content": "Which way?"}
SAY = {"role": "assistant", "content": "north"}


def read(folder: Path, row: object) -> RecordedEpisode:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (episode,) = read_episodes(RecordedFiles(files=(path,)))
    return episode


@pytest.mark.parametrize("mark", [{"weight": 0}, {"weight": 0.0}, {"loss": False}, {"train": False}], ids=str)
def test_a_turn_that_is_marked_as_not_to_be_trained_on_is_skipped(tmp_path: Path, mark: dict) -> None:
    other = {"weight": 1, "loss": None, "train": True}
    messages = [{**ASK, **mark}, {**SAY, **mark}, ASK, {**SAY, **other}, ASK, SAY]
    episode = read(tmp_path, {"messages": messages})
    assert episode.skipped == {1}
    assert write_episodes(tmp_path / "again.jsonl", [episode]) == 1
    (again,) = read_episodes(RecordedFiles(files=(tmp_path / "again.jsonl",)))
    assert again.skipped == {1}


def test_marks_of_messages_add_to_those_of_the_row(tmp_path: Path) -> None:
    row = {"messages": [ASK, {**SAY, "weight": 0}, ASK, SAY, ASK, SAY], "skipped": [3]}
    assert read(tmp_path, row).skipped == {1, 3}


def test_a_marked_turn_of_a_completion_is_skipped_like_those_of_its_prompt(tmp_path: Path) -> None:
    row = {"prompt": [ASK, SAY, ASK], "completion": [{**SAY, "weight": 0}, ASK, SAY]}
    assert read(tmp_path, row).skipped == {1, 3}


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ({"weight": 0.5}, "messages.1.weight: must be 0 or 1, not 0.5"),
        ({"loss": "false"}, 'messages.1.loss: must be 0 or 1, not "false"'),
    ],
    ids=str,
)
def test_a_mark_that_is_neither_is_named(tmp_path: Path, mark: dict, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read(tmp_path, {"messages": [ASK, {**SAY, **mark}]})


def test_numbers_as_names_are_read_as_their_text(tmp_path: Path) -> None:
    episode = read(tmp_path, {"id": 7, "task_id": 0, "messages": [ASK, SAY]})
    assert (episode.id, episode.task_id) == ("7", "0")
    completion = read(tmp_path, {"prompt": "?", "completion": "4", "task_id": 3})
    assert completion.task_id == "3"


@pytest.mark.parametrize("name", [True, 0.5, ["a"]], ids=str)
def test_other_values_are_no_names(tmp_path: Path, name: object) -> None:
    with pytest.raises(DataError, match="task_id: input should be a valid string"):
        read(tmp_path, {"task_id": name, "messages": [ASK, SAY]})


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "developer", "content": "Be brief."}, ASK, SAY]},
        {"prompt": [{"role": "developer", "content": "Be brief."}, ASK], "completion": [SAY]},
        {
            "conversations": [
                {"from": "developer", "value": "Be brief."},
                {"from": "human", "value": "?"},
                {"from": "gpt", "value": "north"},
            ]
        },
    ],
    ids=lambda row: next(iter(row)),
)
def test_a_developers_message_is_the_systems(tmp_path: Path, row: dict) -> None:
    assert [each.role for each in read(tmp_path, row).messages] == ["system", "user", "assistant"]
