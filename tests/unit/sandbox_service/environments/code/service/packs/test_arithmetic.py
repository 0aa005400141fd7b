import hashlib
import json
import re
from collections import Counter
from typing import Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.box.prompts import task_message
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.code.service.packs.arithmetic import arithmetic_splits, load_arithmetic

TASKS = {task.id: task for task in load_arithmetic()}
SPLITS = arithmetic_splits(tuple(TASKS.values()))
CATALOG = CodeCatalog(CodeConfig())
SYMBOLS = {"plus": "+", "minus": "-", "times": "*"}


def expression(prompt: str) -> str:
    """Return the expression that is asked for, read from the words."""
    words = re.fullmatch(r"(?:compute|what is|please give) (.*?)\??", prompt)
    assert words is not None
    return re.sub("plus|minus|times", lambda word: SYMBOLS[word[0]], words[1]).replace(" ", "")


def parts(prompt: str) -> tuple[str, ...]:
    return tuple(sorted(re.findall(r"\d+|[-+*]", expression(prompt))))


def test_the_tasks_are_the_same_for_ever() -> None:
    rows = [
        (task.id, task.prompt, task.grader.answer, [call.arguments for call in task.reference])
        for task in TASKS.values()
    ]
    content = json.dumps(rows)
    assert hashlib.sha256(content.encode()).hexdigest() == (
        "6430852f39a28ed42a238e009cc6e0cbd9502b5159e1bae8773f35faefcd80b5"
    )


def test_there_are_thousands_to_train_on_and_hundreds_to_test_with() -> None:
    sizes = {name: Counter(TASKS[each].difficulty for each in ids) for name, ids in SPLITS.items()}
    assert sizes == {
        "arithmetic_train": {"easy": 3000, "medium": 1500, "hard": 1500},
        "arithmetic_train_easy": {"easy": 3000},
        "arithmetic_test": {"easy": 300, "medium": 150, "hard": 150},
        "arithmetic_test_easy": {"easy": 300},
    }
    assert len(TASKS) == 6600


def test_no_test_question_is_trained_on_in_whatever_order_of_its_numbers() -> None:
    trained = {parts(TASKS[each].prompt) for each in SPLITS["arithmetic_train"]}
    tested = {parts(TASKS[each].prompt) for each in SPLITS["arithmetic_test"]}
    assert trained.isdisjoint(tested)


def test_no_question_is_asked_twice() -> None:
    assert len({expression(task.prompt) for task in TASKS.values()}) == len(TASKS)


def test_the_first_tasks_of_a_split_are_a_fair_sample() -> None:
    first = Counter(TASKS[each].difficulty for each in SPLITS["arithmetic_train"][:100])
    assert first == {"easy": 50, "medium": 25, "hard": 25}


def test_answers_are_what_the_words_say() -> None:
    for task in TASKS.values():
        assert task.grader.kind == "numeric"
        assert task.grader.answer == eval(expression(task.prompt)), task.id


def test_difficulties_differ_in_operations_and_brackets() -> None:
    for task in TASKS.values():
        asked = expression(task.prompt)
        operations = len(re.findall(r"[-+*]", asked))
        assert (operations, "(" in asked) == {
            "easy": (1, False), "medium": (2, False), "hard": (3, True),
        }[task.difficulty or ""]  # fmt: skip
        assert all(2 <= int(number) <= 99 for number in re.findall(r"\d+", asked))


def test_every_operator_and_phrasing_is_about_as_frequent() -> None:
    easy = [TASKS[each].prompt for each in SPLITS["arithmetic_train_easy"]]
    for words in (("plus", "minus", "times"), ("compute", "what is", "please give")):
        counts = [sum(word in prompt for prompt in easy) for word in words]
        assert sum(counts) == len(easy)
        assert min(counts) > 900


@pytest.mark.parametrize(
    "task_id",
    [f"arithmetic/{part}/{level}/7" for part in ("train", "test") for level in ("easy", "medium", "hard")],
)
def test_the_reference_solves_the_task_and_a_near_miss_does_not(task_id: str, play: Any, submit: Any) -> None:
    reference = CATALOG.reference(task_id)
    assert [message["tool_calls"][0]["function"]["name"] for message in reference] == ["python", "submit"]
    assert play(CATALOG, task_id, reference).success
    assert not play(CATALOG, task_id, [submit]).success
    answer = TASKS[task_id].grader.answer
    near = {
        "role": "assistant",
        "content": '<tool_call>{"name": "submit", "arguments": {"answer": %d}}</tool_call>',
    }
    assert not play(CATALOG, task_id, [{**near, "content": near["content"] % (answer + 1)}]).success


def test_the_prompt_is_all_that_is_said_of_the_task() -> None:
    task_id = SPLITS["arithmetic_train"][0]
    assert task_message(CATALOG.payload(task_id).task) == TASKS[task_id].prompt
