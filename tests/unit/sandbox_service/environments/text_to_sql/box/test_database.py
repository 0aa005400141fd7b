import pytest

from sandbox_service.environments.text_to_sql.box.database import build_database
from sandbox_service.environments.text_to_sql.box.schema import load_schema, schema_names


def dump(schema: str, seed: int) -> list[str]:
    return list(build_database(load_schema(schema), seed).iterdump())


@pytest.mark.parametrize("name", schema_names())
def test_a_seed_gives_the_same_rows_and_another_one_others(name: str) -> None:
    assert dump(name, 1) == dump(name, 1) != dump(name, 2)


@pytest.mark.parametrize("name", schema_names())
def test_references_point_to_rows_that_exist(name: str) -> None:
    database = build_database(load_schema(name), 3)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("name", schema_names())
def test_labels_are_different_in_each_row(name: str) -> None:
    schema = load_schema(name)
    database = build_database(schema, 3)
    for table in schema.tables:
        if table.label is not None:
            query = f"SELECT COUNT(*), COUNT(DISTINCT {table.label.name}) FROM {table.name}"
            rows, labels = database.execute(query).fetchone()
            assert rows == labels


@pytest.mark.parametrize("name", schema_names())
def test_some_rows_are_referred_to_by_none(name: str) -> None:
    """Otherwise questions about rows without partners would have no answer."""
    schema = load_schema(name)
    databases = [build_database(schema, seed) for seed in range(5)]
    spare = 0
    for child in schema.tables:
        for reference in child.of_kind("reference"):
            parent = schema.table(reference.table)
            query = (
                f"SELECT COUNT(*) FROM {parent.name} "
                f"WHERE {parent.key} NOT IN (SELECT {reference.name} FROM {child.name})"
            )
            spare += sum(database.execute(query).fetchone()[0] for database in databases)
    assert spare


def test_an_unknown_schema_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="no_such"):
        load_schema("no_such")
