"""Search QA in a real runner: references, idle and cheating agents, searches, parameters."""

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox_service.config import SearchQaConfig
from sandbox_service.environments.search_qa.box.encyclopedia import load_world
from sandbox_service.environments.search_qa.service.catalog import SearchQaCatalog
from sandbox_service.environments.search_qa.service.questions import load_tasks
from tests.harness.runner_box import RunnerBox, runner_box
from tests.harness.task_episodes import play, refusal

CATALOG = SearchQaCatalog(SearchQaConfig())
TASKS = list(load_tasks())


@pytest.fixture(scope="module")
def box() -> Iterator[RunnerBox]:
    with runner_box(CATALOG.spec.world_module, many_per_worker=True) as started:
        yield started


def test_references_answer_all_questions(box: RunnerBox) -> None:
    for task_id in TASKS:
        played = play(box, CATALOG, task_id, CATALOG.reference(task_id))
        assert played.steps[-1]["terminated"]
        assert played.graded == (1.0, True), task_id


def test_no_answer_the_question_and_a_list_of_all_names_score_nothing(box: RunnerBox) -> None:
    everything = " ".join(entity.name for entity in load_world())[:1900]
    for task_id in TASKS[::20]:
        question = CATALOG.payload(task_id).task["question"]
        for answer in ("nothing", "<answer></answer>", f"<answer>{question}</answer>"):
            assert play(box, CATALOG, task_id, [answer]).graded == (0.0, False), (task_id, answer)
        assert play(box, CATALOG, task_id, [f"<answer>{everything}</answer>"]).graded == (0.0, False)


def test_partial_credit_is_given_where_it_is_asked_for(box: RunnerBox) -> None:
    task_id = next(task_id for task_id in TASKS if load_tasks()[task_id].answer.endswith("kilometres"))
    answer = f"<answer>about {load_tasks()[task_id].answer}</answer>"
    assert play(box, CATALOG, task_id, [answer]).graded == (0.0, False)
    assert play(box, CATALOG, task_id, [answer], partial_credit=True).graded == (pytest.approx(0.8), False)


def test_a_number_needs_no_unit_that_the_question_does_not_ask_for(box: RunnerBox) -> None:
    measured = [each for each in load_tasks().values() if each.answer.endswith("metres")]
    asked = [each for each in measured if "with its unit" in each.question]
    assert asked
    assert len(measured) > len(asked)
    for task in measured:
        bare = f"<answer>{task.answer.split()[0]}</answer>"
        assert play(box, CATALOG, task.id, [bare]).verdict["success"] is (task not in asked), task.question
        assert play(box, CATALOG, task.id, [f"<answer>{task.answer}</answer>"]).verdict["success"] is True
        wrong = f"<answer>{task.answer.split()[0]} miles</answer>"
        assert play(box, CATALOG, task.id, [wrong]).verdict["success"] is False


def test_a_wrong_unit_has_the_partial_credit_of_half_an_answer(box: RunnerBox) -> None:
    task = next(each for each in load_tasks().values() if len(each.accepted) > 1)
    wrong = f"<answer>{task.answer.split()[0]} miles</answer>"
    assert play(box, CATALOG, task.id, [wrong], partial_credit=True).graded == (pytest.approx(0.5), False)


def test_the_words_of_the_answer_in_another_order_are_not_the_answer(box: RunnerBox) -> None:
    task_id = next(task_id for task_id in TASKS if load_tasks()[task_id].answer.endswith("kilometres"))
    turned = " ".join(reversed(load_tasks()[task_id].answer.split()))
    score, success = play(box, CATALOG, task_id, [f"<answer>{turned}</answer>"], partial_credit=True).graded
    assert 0.9 < score < 1.0
    assert not success


def test_a_search_shows_passages_and_the_episode_goes_on(box: RunnerBox) -> None:
    name = load_tasks()[TASKS[0]].entities[0]
    played = play(box, CATALOG, TASKS[0], [f"<search>{name}</search>", "Hm.", "<search>...</search>"])
    shown, hint, nothing = played.texts
    assert name in shown
    assert hint.startswith("There is no action in this message.")
    assert nothing == "No passage has any of these words."
    assert not any(step["terminated"] for step in played.steps)
    assert [step["info"]["searches"] for step in played.steps] == [1, 1, 2]


@pytest.mark.parametrize("params", [{"partial_credit": 1}, {"no_such": True}])
def test_wrong_parameters_are_refused(box: RunnerBox, params: dict[str, Any]) -> None:
    assert refusal(box, CATALOG, TASKS[0], **params) == "invalid_request"
