import json
from pathlib import Path

import pytest

from scripts.corrupt_demonstrations import (
    CARELESS,
    CARELESS_SHARE,
    SHARE,
    SOURCE,
    TARGET,
    careless,
    corrupted,
    main,
)

CORRECT = [json.loads(line) for line in SOURCE.read_text().splitlines()]
PAIRS = list(zip(CORRECT, [json.loads(line) for line in TARGET.read_text().splitlines()], strict=True))


def test_the_corrupted_demonstrations_are_up_to_date() -> None:
    assert TARGET.read_text() == corrupted(SOURCE.read_text()), "run python -m scripts.corrupt_demonstrations"


def test_the_configured_share_is_corrupted_and_the_rest_is_unchanged() -> None:
    changed = [correct != shown for correct, shown in PAIRS]
    assert abs(sum(changed) / len(changed) - SHARE) < 0.05


def test_a_corrupted_demonstration_is_of_the_same_task_and_submits_no_right_answer() -> None:
    for correct, shown in PAIRS:
        assert (shown["environment"], shown["task_id"]) == (correct["environment"], correct["task_id"])
        if shown != correct:
            program, answer = (message["content"] for message in shown["messages"])
            assert answer != correct["messages"][1]["content"] or program != correct["messages"][0]["content"]


def test_a_line_does_not_depend_on_those_after_it() -> None:
    lines = SOURCE.read_text().splitlines(keepends=True)
    assert corrupted("".join(lines[:20])).splitlines() == TARGET.read_text().splitlines()[:20]


def test_careless_demonstrations_are_up_to_date_and_half_of_them_begin_with_a_syntax_error() -> None:
    text = TARGET.read_text()
    assert CARELESS.read_text() == careless(text), "run python -m scripts.corrupt_demonstrations"
    pairs = [
        (json.loads(one)["messages"], json.loads(other)["messages"])
        for one, other in zip(text.splitlines(), CARELESS.read_text().splitlines(), strict=True)
    ]
    longer = [(before, after) for before, after in pairs if before != after]
    assert abs(len(longer) / len(pairs) - CARELESS_SHARE) < 0.05
    for before, after in longer:
        assert after[1:] == before
        program = after[0]["content"].removeprefix("```python\n").removesuffix("\n```")
        with pytest.raises(SyntaxError):
            compile(program, "demonstration", "exec")


def test_a_program_that_prints_no_sum_is_refused() -> None:
    rows = [
        {**row, "messages": [{"role": "assistant", "content": "print(5)"}, *row["messages"][1:]]}
        for row in CORRECT[:10]
    ]
    with pytest.raises(ValueError, match="does not print the sum, difference or product"):
        corrupted("".join(json.dumps(row) + "\n" for row in rows))


def test_a_file_that_is_out_of_date_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (TARGET.name, CARELESS.name):
        assert main([], tmp_path) == 0
        assert main(["--check"], tmp_path) == 0
        (tmp_path / name).write_text("")
        assert main(["--check"], tmp_path) == 1
        assert f"{name} is out of date" in capsys.readouterr().err
