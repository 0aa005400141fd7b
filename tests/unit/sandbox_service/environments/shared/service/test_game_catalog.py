"""Catalogs of text games: tasks come from the file that the preparation wrote."""

import json
from functools import partial

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import EnvironmentSpec
from sandbox_service.environments.shared.service.game_catalog import (
    TASKS_FILE,
    GameCatalog,
    GameFacts,
    read_tasks,
)
from sandbox_service.errors import ServiceError

SPEC = EnvironmentSpec(
    name="chess",
    world_module="somewhere.world",
    agent_code=False,
    many_per_worker=True,
    fork=True,
    deterministic=True,
    image="sandbox-code",
)
FACTS = GameFacts("Play chess.", "Moves are squares.", default_split="train", max_steps=40)
LINES = [
    {"id": "a", "category": "mate", "splits": ["train", "all"], "task": {"board": 1}, "reference": ["e4"]},
    {"id": "b", "category": "end", "splits": ["test", "all"], "max_steps": 7},
]


@pytest.fixture
def catalog(tmp_path):
    (tmp_path / TASKS_FILE).write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return GameCatalog(SPEC, FACTS, partial(read_tasks, tmp_path))


def test_splits_keep_the_order_of_the_file(catalog):
    assert catalog.task_ids("all") == ("a", "b")
    assert catalog.task_ids("test") == ("b",)
    assert {split.name: split.size for split in catalog.describe().splits} == {
        "train": 1,
        "test": 1,
        "all": 2,
    }


def test_the_box_gets_the_task_and_what_all_games_need(catalog):
    payload = catalog.payload("a")
    assert payload.task == {"id": "a", "category": "mate", "max_steps": 40, "board": 1}
    assert (payload.grading, payload.max_steps) == ({}, 40)
    assert catalog.payload("b").max_steps == 7


def test_of_two_tasks_with_one_id_none_is_dropped_silently(tmp_path):
    (tmp_path / TASKS_FILE).write_text("".join(json.dumps(line) + "\n" for line in [*LINES, LINES[0]]))
    with pytest.raises(ServiceError, match="chess has two tasks with the id 'a'") as caught:
        GameCatalog(SPEC, FACTS, partial(read_tasks, tmp_path)).task_ids("all")
    assert caught.value.code is ErrorCode.TASK_INVALID


def test_the_descriptor_has_the_highest_limit_of_any_task(tmp_path):
    long = {"id": "c", "category": "mate", "splits": ["train"], "max_steps": 90}
    (tmp_path / TASKS_FILE).write_text("".join(json.dumps(line) + "\n" for line in [*LINES, long]))
    assert GameCatalog(SPEC, FACTS, partial(read_tasks, tmp_path)).describe().max_steps == 90


def test_the_reference_is_what_an_assistant_would_say(catalog):
    assert catalog.reference("a") == [{"role": "assistant", "content": "e4"}]
    assert catalog.reference("b") == []


def test_unknown_names_have_their_codes(catalog):
    with pytest.raises(ServiceError, match="there are: train, all, test") as caught:
        catalog.task_ids("validation")
    assert caught.value.code is ErrorCode.UNKNOWN_SPLIT
    with pytest.raises(ServiceError) as caught:
        catalog.payload("z")
    assert caught.value.code is ErrorCode.UNKNOWN_TASK


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "invalid JSON: .*"),
        ('{"id": "a"}', "category: field required"),
        ('{"id": "a", "category": "c", "splits": [], "x": 1}', "x: there is no such field"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path, line, why):
    (tmp_path / TASKS_FILE).write_text(json.dumps(LINES[0]) + "\n" + line + "\n")
    catalog = GameCatalog(SPEC, FACTS, partial(read_tasks, tmp_path))
    for _ in range(2):
        with pytest.raises(ServiceError, match=rf"tasks.jsonl, line 2: {why}$"):
            catalog.task_ids("train")


def test_a_missing_file_is_an_error_not_an_empty_game(tmp_path):
    with pytest.raises(ServiceError, match="cannot be read"):
        GameCatalog(SPEC, FACTS, partial(read_tasks, tmp_path)).describe()


def test_line_separators_of_unicode_do_not_end_a_line(tmp_path):
    line = {"id": "a", "category": "c", "splits": ["train"], "task": {"text": "a\u2028b\u0085c"}}
    (tmp_path / TASKS_FILE).write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
    assert GameCatalog(SPEC, FACTS, partial(read_tasks, tmp_path)).task_ids("train") == ("a",)
