from collections import Counter

from sandbox_service.config import TextToSqlConfig
from sandbox_service.environments.text_to_sql.box.comparison import same_rows
from sandbox_service.environments.text_to_sql.box.database import build_database
from sandbox_service.environments.text_to_sql.box.reading import prepare_for_reading, run_query
from sandbox_service.environments.text_to_sql.box.schema import load_schema
from sandbox_service.environments.text_to_sql.service.catalog import TextToSqlCatalog
from sandbox_service.environments.text_to_sql.service.tasks import FAMILIES, load_tasks

TASKS = load_tasks()


def test_there_are_hundreds_of_tasks_and_each_schema_is_in_one_split() -> None:
    assert Counter(task.split for task in TASKS.values()) == {"train": 428, "validation": 61, "test": 121}
    schemas = {
        split: {task.schema for task in TASKS.values() if task.split == split} for split in ("train", "test")
    }
    assert len(schemas["train"]) == 7
    assert schemas["train"] & schemas["test"] == set()


def test_every_family_has_tasks_of_several_schemas() -> None:
    found = Counter((task.id.split("/")[1], task.schema) for task in TASKS.values())
    families = Counter(family for family, _ in found)
    assert set(families) == {family.name for family in FAMILIES}
    assert min(families.values()) >= 3


def test_no_question_is_asked_twice_about_a_schema() -> None:
    assert len({(task.schema, task.question) for task in TASKS.values()}) == len(TASKS)


def test_an_answer_that_is_right_on_the_seen_database_is_wrong_on_the_hidden_ones() -> None:
    for task in list(TASKS.values())[::15]:
        schema = load_schema(task.schema)
        seen, *hidden = (
            build_database(schema, seed).execute(task.query).fetchall()
            for seed in (task.seed, *task.hidden_seeds)
        )
        assert len(hidden) == 2
        assert not any(same_rows(seen, rows, ordered=task.ordered) for rows in hidden)


def test_references_stay_within_the_bounds_of_queries() -> None:
    for task in list(TASKS.values())[::15]:
        database = build_database(load_schema(task.schema), task.seed)
        prepare_for_reading(database)
        assert run_query(database, task.query, 2000).rows, task.id


def test_the_box_is_sent_neither_query_nor_hidden_seeds_with_the_task() -> None:
    payload = TextToSqlCatalog(TextToSqlConfig()).payload(next(iter(TASKS)))
    assert set(payload.task) == {"id", "schema", "seed", "question", "category", "max_steps"}
    assert payload.task["seed"] not in payload.grading["seeds"]
