"""A run whose checkpoints are gone is told from a new one."""

import pytest

from trainer.config import RunConfig
from trainer.errors import CheckpointError
from trainer.loop.plan import plan_of
from trainer.loop.progress_note import check_resumable, write_progress

DATA = {"files": ["rows.jsonl"]}
PLAN = plan_of(
    RunConfig(
        stages=[
            {"kind": "sft", "data": DATA, "steps": 4},
            {"kind": "preferences", "name": "dpo", "data": DATA, "steps": 2},
        ]
    )
)


def test_a_new_run_has_no_checkpoint_to_miss(tmp_path):
    check_resumable(tmp_path, PLAN)


def test_a_stage_whose_predecessors_checkpoint_is_missing_cannot_begin(tmp_path):
    write_progress(tmp_path, 4, "sft")
    with pytest.raises(
        CheckpointError, match="stage dpo cannot begin: the checkpoint of stage sft after step 4"
    ):
        check_resumable(tmp_path, PLAN)


def test_the_newest_checkpoint_is_the_one_that_is_noted(tmp_path):
    write_progress(tmp_path, 4, "sft")
    write_progress(tmp_path, 5, "dpo")
    with pytest.raises(
        CheckpointError, match="stage dpo cannot begin: the checkpoint of stage dpo after step 5"
    ):
        check_resumable(tmp_path, PLAN)


def test_a_note_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "progress.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be read"):
        check_resumable(tmp_path, PLAN)
