"""A single-turn world takes one message, and grades the answer in it."""

import pytest

from sandbox_service.environments.shared.box.answer_world import AnswerWorld, answer_in
from sandbox_service.runner.world import Context, WorldError


class Capital(AnswerWorld):
    def grade_answer(self, answer, grading):
        return float(answer == grading["capital"])


def world(**params):
    return Capital({"prompt": "Of France?", "category": "all", "max_steps": 1}, Context("i", 0, params))


def test_one_answer_ends_the_episode_and_is_graded() -> None:
    asked = world()
    start = asked.start()
    assert [each["role"] for each in start.messages] == ["system", "user"]
    assert start.info["texts"] == "last"
    assert asked.evaluate({}, {"capital": "Paris"}).score == 0.0
    said = {
        "role": "assistant",
        "content": "<think><answer>Rome</answer></think>I say <answer> Paris </answer>",
    }
    assert asked.step(said, 1.0).terminated
    assert asked.evaluate({}, {"capital": "Paris"}).success


class Number(AnswerWorld):
    def grade_answer(self, answer, grading):
        return float(int(answer) == int(grading["number"]))


def proofs(grading) -> list[bool]:
    """Whether grading raises in each untouched world."""
    failures = []
    task = {"prompt": "?", "category": "all", "max_steps": 1}
    for untouched in Number(task, Context("i", 0)).untouched(task):
        try:
            untouched.evaluate({}, grading)
        except (KeyError, ValueError):
            failures.append(True)
        else:
            failures.append(False)
    return failures


@pytest.mark.parametrize(
    ("grading", "at_fault"), [({"number": "4"}, False), ({}, True), ({"number": "four"}, True)]
)
def test_a_grader_that_reads_some_answers_only_is_not_at_fault(grading, at_fault) -> None:
    failures = proofs(grading)
    assert len(failures) > 1
    assert all(failures) is at_fault


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("4", "4"),
        (" 4\n", "4"),
        ("<answer>3</answer> no, <answer>4</answer>", "4"),
        ("<answer>4", "4"),
        ("", ""),
    ],
)
def test_the_answer_is_the_last_tag_or_the_whole_text(text, answer) -> None:
    assert answer_in(text) == answer


def test_an_unknown_parameter_is_refused_by_name() -> None:
    with pytest.raises(WorldError, match="no parameter 'size': this environment takes no parameters"):
        world(size=3).start()
