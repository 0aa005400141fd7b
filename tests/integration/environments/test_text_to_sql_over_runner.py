"""Text-to-SQL in a real runner: references, idle and cheating agents, and queries that would do harm."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_service.config import TextToSqlConfig
from sandbox_service.environments.text_to_sql.box.database import build_database
from sandbox_service.environments.text_to_sql.box.schema import load_schema
from sandbox_service.environments.text_to_sql.service.catalog import TextToSqlCatalog
from sandbox_service.environments.text_to_sql.service.tasks import load_tasks
from tests.harness.runner_box import RunnerBox, runner_box, uid_drop_missing
from tests.harness.sampling import where_environment_changed
from tests.harness.task_episodes import play

pytestmark = where_environment_changed("text_to_sql")

CATALOG = TextToSqlCatalog(TextToSqlConfig())
TASKS = list(load_tasks())
SAMPLE = TASKS if os.environ.get("TEXT_TO_SQL_FULL") == "1" else TASKS[::9]


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def box(request: pytest.FixtureRequest) -> Iterator[RunnerBox]:
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box(CATALOG.spec.world_module, drop=request.param, agent_code=True) as started:
        yield started


def call(name: str, **arguments: str) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "a", "function": function}]}


def test_references_answer_the_questions(box: RunnerBox) -> None:
    for task_id in SAMPLE:
        played = play(box, CATALOG, task_id, CATALOG.reference(task_id))
        assert played.steps[-1]["terminated"]
        assert played.graded == (1.0, True), task_id


def test_no_query_one_without_rows_and_the_answer_written_down_score_nothing(box: RunnerBox) -> None:
    for task_id in TASKS[::45]:
        task = load_tasks()[task_id]
        rows = build_database(load_schema(task.schema), task.seed).execute(task.query).fetchall()
        written = ", ".join("(" + ", ".join(map(repr, row)) + ")" for row in rows)
        assert play(box, CATALOG, task_id, ["I do not know."]).graded == (0.0, False)
        for query in ("", "SELECT 1 WHERE 0", f"VALUES {written}"):
            graded = play(box, CATALOG, task_id, [call("submit_query", sql=query)]).graded
            assert graded == (0.0, False), (task_id, query)


def test_tables_and_rows_are_shown(box: RunnerBox) -> None:
    task_id = next(task_id for task_id in TASKS if task_id.startswith("library/"))
    calls = [
        call("list_tables"),
        call("describe_table", table="books"),
        call("describe_table", table="films"),
        call("run_query", sql="SELECT name, district FROM branches ORDER BY branch_id LIMIT 1"),
        call("run_query", sql="SELECT * FROM loans"),
        call("run_query", sql="SELECT * FROM loans WHERE 0"),
        call("run_query", sql="SELECT film FROM books"),
    ]
    tables, books, films, rows, many, none, error = play(box, CATALOG, task_id, calls).texts
    assert tables.split() == ["branches", "authors", "books", "loans"]
    assert "author_id INTEGER NOT NULL REFERENCES authors" in books
    assert films == "There is no table 'films'; there are: branches, authors, books, loans."
    assert rows.startswith("name | district\nHarbour | ")
    assert many.endswith("(only the first 20 rows are shown)")
    assert none.endswith("(no rows)")
    assert error == "Error: no such column: film"


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE loans",
        "INSERT INTO branches VALUES (99, 'x', 'x', 'x', 1)",
        "ATTACH DATABASE '/tmp/planted.sqlite' AS planted",
        "VACUUM INTO '/tmp/planted.sqlite'",
        "PRAGMA query_only = OFF",
        "SELECT load_extension('/tmp/planted.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT 1; SELECT 2",
    ],
)
def test_a_query_that_does_more_than_read_is_refused(box: RunnerBox, query: str) -> None:
    task_id = next(task_id for task_id in TASKS if task_id.startswith("library/"))
    count = call("run_query", sql="SELECT COUNT(*) FROM loans")
    before, refused, after = play(box, CATALOG, task_id, [count, call("run_query", sql=query), count]).texts
    assert refused.startswith("Error: ")
    assert before == after
    assert not Path("/tmp/planted.sqlite").exists()


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n",
        "SELECT COUNT(*) FROM loans AS a, loans AS b, loans AS c, loans AS d",
        "SELECT replace(printf('%.9999c', 'x'), 'x', printf('%.9999c', 'y'))",
        "WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM n) SELECT MAX(LENGTH(t)) FROM n",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    ],
)
def test_a_query_without_end_is_stopped_and_costs_no_more_than_its_step(box: RunnerBox, query: str) -> None:
    task_id = next(task_id for task_id in TASKS if task_id.startswith("library/"))
    played = play(box, CATALOG, task_id, [call("run_query", sql=query), call("submit_query", sql=query)])
    assert played.texts[0].startswith("Error: ")
    assert played.graded == (0.0, False)
