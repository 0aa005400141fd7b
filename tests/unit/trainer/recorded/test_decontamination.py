import json
from pathlib import Path

import pytest

from tests.fakes.recorded import episode, message
from trainer.config.selection import DecontaminationConfig
from trainer.errors import DataError
from trainer.recorded.decontamination import EvaluationTask, EvaluationTasks, find_contaminated
from trainer.recorded.evaluation_tasks import tasks_of_file
from trainer.recorded.types import Preference, RowOrigin

QUESTION = (
    "Return the list of prime numbers below the given limit in descending order, "
    "without any number that ends in the digit seven"
)
TASKS = [EvaluationTask("HumanEval/3", QUESTION), EvaluationTask("HumanEval/4", "Reverse a text.")]


def overlap(record, tasks=TASKS, **settings):
    found = find_contaminated([record], EvaluationTasks(tasks, DecontaminationConfig(**settings)))
    return [(each.task, round(each.share, 2)) for each in found]


def asked(text: str, **more: object):
    return episode("t/1", messages=(message("user", text), message("assistant", "done")), **more)


def test_an_episode_that_quotes_an_evaluation_task_is_found() -> None:
    assert overlap(asked(f"Please: {QUESTION.upper()}!")) == [("HumanEval/3", 1.0)]


def test_a_quotation_in_part_counts_by_its_share() -> None:
    half = asked(" ".join(QUESTION.split()[:16]))
    assert overlap(half) == [("HumanEval/3", 0.4)]
    assert overlap(half, share=0.5) == []


def test_a_task_of_few_words_counts_as_a_whole() -> None:
    assert overlap(asked("Now reverse a text, please.")) == [("HumanEval/4", 1.0)]
    assert overlap(asked("Now reverse a textbook, please.")) == []


def test_an_episode_of_an_evaluation_task_or_split_is_found_by_its_name() -> None:
    assert overlap(episode("HumanEval/4")) == [("HumanEval/4", 1.0)]
    assert overlap(episode("own/1", environment="code", split="mbpp")) == [("split mbpp", 1.0)]
    assert overlap(episode("own/1", environment="code", split="programs_train")) == []


def test_instructions_that_many_tasks_share_are_no_overlap() -> None:
    head = (
        "Write a function in Python that solves the task below and submit it with the tool that is offered."
    )
    tasks = [EvaluationTask(f"t{number}", f"{head} {QUESTION} {number}") for number in range(2)]
    others = [EvaluationTask(f"o{number}", f"{head} Add {number} to the number.") for number in range(9)]
    assert overlap(asked(f"{head} Say hello."), [*tasks, *others]) == []
    assert overlap(asked(f"{head} {QUESTION}"), [*tasks, *others]) != []


def test_the_systems_message_is_no_overlap() -> None:
    messages = (message("system", QUESTION), message("user", "hello"), message("assistant", "hi"))
    assert overlap(episode(messages=messages)) == []


def test_preferences_are_checked_like_episodes() -> None:
    said = (message("assistant", QUESTION),)
    pair = Preference((message("user", "?"),), said, (message("assistant", "no"),), RowOrigin("p.jsonl", 1))
    assert overlap(pair) == [("HumanEval/3", 1.0)]


def test_evaluation_tasks_are_read_from_files_of_questions(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"task_id": 7, "text": "Add."}) + "\n" + json.dumps({"prompt": "Sub."}) + "\n")
    assert tasks_of_file(path) == (EvaluationTask("7", "Add."), EvaluationTask(f"{path}:2", "Sub."))


def test_a_row_without_a_question_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": ""}\n{"prompt": "Add."}\n')
    with pytest.raises(DataError, match=r"tasks.jsonl:1: has no text in any of the columns prompt"):
        tasks_of_file(path)
