"""Rows of a later stage that would end a run hours later are found before its first step."""

import json

import pytest

from tests.harness.tiny_chat import tiny_folder
from trainer.config import RunConfig
from trainer.errors import DataError
from trainer.launch.stage_check import check_later_stages
from trainer.loop.progress_note import write_progress

LONG = "a very long answer " * 400


def rows(path, answer):
    messages = [{"role": "user", "content": "2 + 3?"}, {"role": "assistant", "content": answer}]
    path.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    return {"files": [str(path)]}


def run(tmp_path, **second):
    fitting = rows(tmp_path / "fitting.jsonl", "5")
    overlong = rows(tmp_path / "overlong.jsonl", LONG)
    return RunConfig(
        steps=0,
        stages=[
            {"kind": "sft", "name": "first", "data": fitting, "steps": 4},
            {"kind": "sft", "name": "second", "data": overlong, "steps": 2, **second},
        ],
    )


def test_overlong_rows_of_the_second_stage_are_refused_before_the_first_begins(tmp_path):
    with pytest.raises(DataError, match=r"overlong\.jsonl:1: has \d+ tokens, and the context 512"):
        check_later_stages(run(tmp_path), tmp_path, tiny_folder())


def test_a_stage_of_which_no_row_would_be_left_is_refused(tmp_path):
    with pytest.raises(DataError, match="stage second: none of 1 rows fits"):
        check_later_stages(run(tmp_path, overlong="drop"), tmp_path, tiny_folder())


def test_rows_that_fit_pass(tmp_path):
    fitting = rows(tmp_path / "fitting.jsonl", "6")
    check_later_stages(run(tmp_path, data=fitting), tmp_path, tiny_folder())


def test_the_stage_that_a_run_goes_on_with_reads_its_own_rows(tmp_path):
    """They are read before its next step anyway, so that nothing is gained by reading them twice."""
    write_progress(tmp_path, 4, "first")
    check_later_stages(run(tmp_path), tmp_path, tiny_folder())
