import re
from collections import Counter

from sandbox_service.config import SearchQaConfig
from sandbox_service.environments.search_qa.box.encyclopedia import load_world
from sandbox_service.environments.search_qa.box.search import load_index
from sandbox_service.environments.search_qa.service.catalog import SearchQaCatalog
from sandbox_service.environments.search_qa.service.questions import load_tasks

TASKS = load_tasks()


def test_there_are_hundreds_of_questions_of_each_number_of_steps() -> None:
    assert Counter((task.split, task.steps) for task in TASKS.values()) == {
        ("train", 1): 150,
        ("train", 2): 225,
        ("train", 3): 225,
        ("validation", 1): 20,
        ("validation", 2): 30,
        ("validation", 3): 30,
        ("test", 1): 50,
        ("test", 2): 75,
        ("test", 3): 75,
    }


def test_no_question_is_asked_twice() -> None:
    assert len({task.question for task in TASKS.values()}) == len(TASKS)


def test_held_out_questions_are_about_entities_of_no_training_question() -> None:
    split_of = {entity.name: entity.split for entity in load_world()}
    for task in TASKS.values():
        assert {split_of[name] for name in task.entities} == {task.split}


def test_a_question_names_its_first_entity_and_neither_a_later_one_nor_the_answer() -> None:
    for task in TASKS.values():
        first, *later = task.entities
        assert first in task.question
        assert not any(name in task.question for name in later), task
        assert not re.search(rf"\b{re.escape(task.answer)}\b", task.question), task


def test_the_answer_is_found_by_searching_for_the_entities_in_turn() -> None:
    """The searches of the reference show the way: each names the next entity, and the last the answer."""
    for task in list(TASKS.values())[::11]:
        for name, following in zip(task.entities, (*task.entities[1:], task.answer), strict=True):
            shown = " ".join(each.text for each in load_index().find(name, 3)).lower()
            assert following.lower() in shown, (task.id, name, following)


def test_references_search_for_each_entity_and_submit() -> None:
    catalog = SearchQaCatalog(SearchQaConfig())
    for task_id in catalog.task_ids("test")[::20]:
        names = [
            call["function"]["name"]
            for message in catalog.reference(task_id)
            for call in message["tool_calls"]
        ]
        assert names == ["search"] * TASKS[task_id].steps + ["submit"]
