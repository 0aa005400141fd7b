"""A judge that cannot grade a step ends the labelling before the first episode."""

from pathlib import Path

import pytest

pytest.importorskip("openai", reason="openai is not installed")

from tests.fakes.chat_server import FakeChatServer, Reply, says
from tests.harness.http_server import serving
from trainer.config.step_labels import JudgeRule, settings_of_labels
from trainer.errors import JudgeFailed
from trainer.step_labels.opening import opened_labeller, with_rubric

GRADES = "RELEVANCE: 9\nCORRECTNESS: 8\nPROGRESS: 7"


async def opened(
    server: FakeChatServer, folder: Path, labelling: str | None = None, **changes: object
) -> None:
    with serving(server.app) as address:
        judge = {"model": "grader", "base_url": f"{address}/v1", "attempts": 1, **changes}
        rule = JudgeRule.model_validate({"judge": judge})
        async with opened_labeller(rule, folder / "steps.jsonl", (), labelling):
            pass


async def test_a_judge_grades_one_step_first(tmp_path: Path) -> None:
    server = FakeChatServer([says(GRADES)])
    await opened(server, tmp_path)
    assert len(server.bodies) == 1


async def test_each_labelling_of_a_file_has_a_budget_of_its_own(tmp_path: Path) -> None:
    server = FakeChatServer([says(GRADES), says(GRADES)])
    for labelling in ("first", "first", "again"):
        await opened(server, tmp_path, labelling, max_calls=1)
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply({"error": {"message": "down"}}, 502), r"http://127\S+/v1 answered 502"),
        (says("SCORE: 3"), "does not end with a line 'RELEVANCE: <number>'"),
    ],
    ids=["dead", "nonsense"],
)
async def test_a_judge_that_does_not_is_named_with_what_to_do(tmp_path: Path, reply: Reply, why: str) -> None:
    with pytest.raises(JudgeFailed, match=rf"{why}.*or change rule\.judge"):
        await opened(FakeChatServer([reply]), tmp_path)


def test_labels_depend_on_the_text_of_a_rubrics_file(tmp_path: Path) -> None:
    file = tmp_path / "rubric.md"
    rule = JudgeRule.model_validate({"judge": {"model": "grader", "rubric_file": file}})
    file.write_text("Is it right?")
    before = settings_of_labels(with_rubric(rule))
    assert settings_of_labels(with_rubric(rule)) == before
    file.write_text("Is it kind?")
    assert settings_of_labels(with_rubric(rule)) != before
