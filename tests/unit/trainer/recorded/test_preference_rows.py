"""Turns of pairs and labelled completions that are marked as not to be trained on."""

import json
from pathlib import Path

import pytest

from tests.fakes.recorded import calling
from tests.harness.recorded_files import read_completions, read_preferences
from trainer.config.recorded import RecordedFiles
from trainer.errors import DataError
from trainer.recorded.preference_rows import write_completions, write_preferences

ASK = {"role": "user", "content": "Which way?"}
NORTH = {"role": "assistant", "content": "north"}
SOUTH = {"role": "assistant", "content": "south"}


def file_of(folder: Path, *rows: object) -> RecordedFiles:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return RecordedFiles(files=(path,))


@pytest.mark.parametrize("mark", [{"weight": 0}, {"loss": False}, {"train": False}], ids=str)
@pytest.mark.parametrize(
    "column", [True, False], ids=["prompt in its column", "prompt in both conversations"]
)
def test_a_marked_turn_of_a_pair_carries_no_loss(tmp_path: Path, mark: dict, column: bool) -> None:
    prompt = [ASK, {**NORTH, **mark}, ASK]
    sides = {"chosen": [{**NORTH, **mark}, ASK, NORTH], "rejected": [SOUTH, ASK, {**SOUTH, **mark}]}
    row = {"prompt": prompt, **sides} if column else {name: [*prompt, *side] for name, side in sides.items()}
    (pair,) = read_preferences(file_of(tmp_path, row))
    assert (len(pair.prompt), pair.chosen_skipped, pair.rejected_skipped) == (3, {0}, {2})
    assert write_preferences(tmp_path / "again.jsonl", [pair]) == 1
    (again,) = read_preferences(RecordedFiles(files=(tmp_path / "again.jsonl",)))
    assert (again.chosen_skipped, again.rejected_skipped) == ({0}, {2})


def test_a_marked_turn_of_a_labelled_completion_carries_no_loss(tmp_path: Path) -> None:
    row = {"prompt": [ASK, NORTH, ASK], "completion": [{**NORTH, "weight": 0}, ASK, NORTH], "label": True}
    other = {"prompt": [ASK], "completion": [SOUTH], "label": False}
    labelled = read_completions(file_of(tmp_path, row, other))
    assert [each.skipped for each in labelled] == [{0}, set()]
    assert write_completions(tmp_path / "again.jsonl", labelled) == 2
    again = read_completions(RecordedFiles(files=(tmp_path / "again.jsonl",)))
    assert [each.skipped for each in again] == [{0}, set()]


def test_a_mark_that_is_neither_is_named(tmp_path: Path) -> None:
    row = {"prompt": [ASK], "chosen": [{**NORTH, "weight": 0.5}], "rejected": [SOUTH]}
    with pytest.raises(DataError, match=r"chosen\.0\.weight: must be 0 or 1, not 0\.5"):
        read_preferences(file_of(tmp_path, row))


def test_completions_that_differ_in_the_ids_of_calls_alone_are_the_same(tmp_path: Path) -> None:
    chosen, rejected = (
        [each.model_dump(exclude_none=True) for each in calling(call).completion] for call in ("a1", "b2")
    )
    with pytest.raises(DataError, match="chosen and rejected are the same"):
        read_preferences(file_of(tmp_path, {"prompt": [ASK], "chosen": chosen, "rejected": rejected}))
