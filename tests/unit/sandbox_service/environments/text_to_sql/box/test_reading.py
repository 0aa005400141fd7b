import sqlite3
from collections.abc import Iterator

import pytest

from sandbox_service.environments.text_to_sql.box.reading import QueryError, prepare_for_reading, run_query

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n{}) SELECT i FROM n"


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE films (title TEXT, year INTEGER, shown_on TEXT)")
    connection.execute("INSERT INTO films VALUES ('A', 1999, '1999-04-01'), ('B', NULL, '2003-05-06')")
    prepare_for_reading(connection)
    yield connection
    connection.close()


def rows(database: sqlite3.Connection, query: str) -> list[list[object]]:
    return [list(row) for row in run_query(database, query, 10).rows]


def test_rows_come_with_their_columns_and_whether_there_are_more(database: sqlite3.Connection) -> None:
    found = run_query(database, "SELECT title, year AS y FROM films ORDER BY title", 1)
    assert (found.columns, found.rows, found.more) == (["title", "y"], [["A", 1999]], True)
    assert not run_query(database, "SELECT title FROM films", 2).more


def test_values_that_are_no_json_are_texts(database: sqlite3.Connection) -> None:
    assert rows(database, "SELECT 9e999, -9e999, x'00ff', NULL") == [["inf", "-inf", "00ff", None]]


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM films",
        "UPDATE films SET year = 1",
        "INSERT INTO films DEFAULT VALUES",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "ATTACH ':memory:' AS x",
        "PRAGMA query_only = OFF",
        "PRAGMA table_info(films)",
        "SELECT * FROM pragma_table_info('films')",
        "SELECT load_extension('x')",
        "SELECT random()",
        "SELECT randomblob(10)",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT fts3_tokenizer('simple')",
        "BEGIN",
        "VACUUM",
    ],
)
def test_only_reading_is_allowed(database: sqlite3.Connection, query: str) -> None:
    with pytest.raises(QueryError, match=r"only reading is allowed|cannot VACUUM"):
        run_query(database, query, 10)
    assert rows(database, "SELECT COUNT(*) FROM films") == [[2]]


@pytest.mark.parametrize(
    "query", ["", " ", "-- nothing", "SELECT 1; SELECT 2", "SELEC 1", "SELECT '\x00", "\ud800"]
)
def test_a_text_that_is_no_query_is_an_error(database: sqlite3.Connection, query: str) -> None:
    with pytest.raises(QueryError):
        run_query(database, query, 10)


def test_a_query_that_works_too_long_is_stopped_after_the_same_work_each_time(
    database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_service.environments.text_to_sql.box.reading.MOST_INSTRUCTIONS", 200_000)
    counted = f"SELECT COUNT(*) FROM ({NUMBERS.format('')})"
    for _ in range(2):
        with pytest.raises(QueryError, match="too much work"):
            run_query(database, counted, 10)
    assert rows(database, f"SELECT COUNT(*) FROM ({NUMBERS.format(' WHERE i < 1000')})") == [[1000]]


def test_a_large_value_or_query_is_an_error(database: sqlite3.Connection) -> None:
    large = "replace(printf('%.1000c', 'x'), 'x', printf('%.2000c', 'y'))"
    for query in (f"SELECT {large}", "SELECT 1 --" + "x" * 10_000):
        with pytest.raises(QueryError):
            run_query(database, query, 10)


def test_dates_are_computed_and_the_current_time_is_not_told(database: sqlite3.Connection) -> None:
    query = "SELECT strftime('%Y', shown_on), date(shown_on, '+1 day') FROM films ORDER BY title"
    assert rows(database, query) == [["1999", "1999-04-02"], ["2003", "2003-05-07"]]
    for query in ("SELECT date('now')", "SELECT datetime()", "SELECT strftime('%s')", "SELECT time(' NOW ')"):
        with pytest.raises(QueryError):
            run_query(database, query, 10)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT year, ROW_NUMBER() OVER (ORDER BY year) FROM films",
        "SELECT COUNT(DISTINCT year), AVG(year), GROUP_CONCAT(title) FROM films",
        "SELECT UPPER(SUBSTR(title, 1, 1)) || LENGTH(title), COALESCE(year, 0), IIF(1, 2, 3) FROM films",
        "SELECT CASE WHEN title LIKE 'a%' THEN ROUND(year / 3.0, 2) ELSE ABS(-1) END FROM films",
    ],
)
def test_what_questions_need_is_allowed(database: sqlite3.Connection, query: str) -> None:
    assert rows(database, query)
