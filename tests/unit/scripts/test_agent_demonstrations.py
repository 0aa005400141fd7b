import json
from pathlib import Path

import pytest

from scripts.agent_demonstrations import FOLDER, LINES, MANNERS, SOURCE, main, written


@pytest.mark.parametrize("manner", MANNERS)
def test_the_demonstrations_are_up_to_date(manner: str) -> None:
    shown = (FOLDER / f"{manner}.jsonl").read_text()
    assert shown == written(SOURCE.read_text(), manner), "run python -m scripts.agent_demonstrations"


@pytest.mark.parametrize("manner", MANNERS)
def test_each_is_of_the_task_of_its_line_and_does_one_thing_a_turn(manner: str) -> None:
    lines = SOURCE.read_text().splitlines()[:LINES]
    shown = [json.loads(line) for line in (FOLDER / f"{manner}.jsonl").read_text().splitlines()]
    assert [row["task_id"] for row in shown] == [json.loads(line)["task_id"] for line in lines]
    messages = [message for row in shown for message in row["messages"]]
    assert {len(message.get("tool_calls") or [message["content"]]) for message in messages} == {1}


def test_a_program_that_prints_no_sum_is_refused() -> None:
    row = {"task_id": "t", "messages": [{"content": "5"}, {"content": "5"}]}
    with pytest.raises(ValueError, match="t does not print a sum"):
        written(json.dumps(row), "tools")


def test_files_that_are_out_of_date_fail_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tools.jsonl").write_text("")
    assert main(["--check"], tmp_path) == 1
    assert "out of date" in capsys.readouterr().err
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
