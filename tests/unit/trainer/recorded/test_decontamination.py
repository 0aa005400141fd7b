import json
from pathlib import Path

import pytest

from tests.fakes.recorded import calling, episode, message
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


def test_tasks_of_the_same_id_are_told_apart() -> None:
    tasks = [EvaluationTask("1", text) for text in (QUESTION, "Reverse a text.", "Sort a list.")]
    assert [overlap(asked(task.text), tasks) for task in tasks] == [[("1", 1.0)]] * 3
    assert overlap(asked("Say hello."), tasks) == []


def test_a_task_that_several_files_have_is_no_instruction() -> None:
    tasks = [EvaluationTask(f"{file}/3", QUESTION) for file in ("a", "b", "c")]
    assert overlap(asked(QUESTION), tasks) == [("a/3", 1.0)]


@pytest.mark.parametrize(
    ("environment", "task", "found"),
    [
        ("code", EvaluationTask("1", QUESTION, "code"), True),
        ("textcraft", EvaluationTask("1", QUESTION, "code"), False),
        ("textcraft", EvaluationTask("1", QUESTION), False),
        ("", EvaluationTask("1", QUESTION, "code"), False),
        ("code", EvaluationTask("HumanEval/3", QUESTION), True),
        ("", EvaluationTask("HumanEval/3", QUESTION, "code"), True),
        ("textcraft", EvaluationTask("HumanEval/3", QUESTION, "code"), False),
    ],
)
def test_ids_are_compared_within_an_environment(environment: str, task: EvaluationTask, found: bool) -> None:
    assert bool(overlap(episode(task.name, environment=environment), [task])) is found


@pytest.mark.parametrize(
    "arguments", [{"code": f"# {QUESTION}\n"}, {"parts": [1, {"text": QUESTION}]}], ids=str
)
def test_arguments_of_calls_are_read_without_the_escapes_of_json(arguments: dict[str, object]) -> None:
    lines = json.dumps(arguments).replace(" without", "\\nwithout")
    assert overlap(calling("1", lines)) == [("HumanEval/3", 1.0)]
    assert overlap(calling("1", f"{QUESTION} {{")) == [("HumanEval/3", 1.0)]


def test_instructions_that_many_tasks_share_are_no_overlap() -> None:
    head = (
        "Write a function in Python that solves the task below and submit it with the tool that is offered."
    )
    tasks = [EvaluationTask(f"t{number}", f"{head} {QUESTION} {number}") for number in range(2)]
    others = [EvaluationTask(f"o{number}", f"{head} Add {number} to the number.") for number in range(9)]
    assert overlap(asked(f"{head} Say hello."), [*tasks, *others]) == []
    assert overlap(asked(f"{head} {QUESTION}"), [*tasks, *others]) != []


def test_a_copy_of_a_task_whose_words_all_occur_in_others_is_found() -> None:
    longer = (QUESTION, f"{QUESTION} and explain it", f"{QUESTION} in one line")
    tasks = [EvaluationTask(f"t{number}", text) for number, text in enumerate(longer)]
    assert overlap(asked(f"Please: {QUESTION}!"), tasks) == [("t0", 1.0)]
    assert overlap(asked(QUESTION.removesuffix(" seven")), tasks) == []


def test_a_task_without_words_overlaps_with_nothing() -> None:
    assert overlap(asked("Say hello."), [EvaluationTask("empty", "?!"), *TASKS]) == []


def test_the_systems_message_is_no_overlap() -> None:
    messages = (message("system", QUESTION), message("user", "hello"), message("assistant", "hi"))
    assert overlap(episode(messages=messages)) == []


def test_preferences_are_checked_like_episodes() -> None:
    said = (message("assistant", QUESTION),)
    pair = Preference((message("user", "?"),), said, (message("assistant", "no"),), RowOrigin("p.jsonl", 1))
    assert overlap(pair) == [("HumanEval/3", 1.0)]


def test_evaluation_tasks_are_read_from_files_of_questions(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    rows = {"task_id": 7, "text": "Add.", "environment": "code"}, {"prompt": "Sub."}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert tasks_of_file(path) == (EvaluationTask("7", "Add.", "code"), EvaluationTask(f"{path}:2", "Sub."))


def test_a_row_without_a_question_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"prompt": ""}\n{"prompt": "Add."}\n')
    with pytest.raises(DataError, match=r"tasks.jsonl:1: has no text in any of the columns prompt"):
        tasks_of_file(path)
