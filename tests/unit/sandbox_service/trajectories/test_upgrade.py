import sqlite3

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError

from sandbox_service.trajectories import upgrade
from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.schema import REVISION, metadata, revision
from sandbox_service.trajectories.upgrade import StoreSchemaError, prepare
from tests.contract.trajectory_store import make_first_release
from tests.harness.store_revisions import migrate, migration_config


@pytest.fixture
def engine(tmp_path):
    engine = connect(f"sqlite:///{tmp_path}/store.sqlite")
    yield engine
    engine.dispose()


def test_all_migrations_together_make_the_tables_of_the_schema(engine):
    migrate(engine, "head")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": revision.name})
        assert compare_metadata(context, metadata) == []


def test_the_newest_migration_is_the_revision_of_a_new_database(engine):
    prepare(engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(revision.c.version_num)).scalars().all() == [REVISION]
    assert ScriptDirectory.from_config(migration_config()).get_current_head() == REVISION


def test_an_older_database_is_upgraded_once(engine):
    migrate(engine, "0001")
    prepare(engine)
    prepare(engine)
    assert sa.inspect(engine).has_table("trajectory_lives")


def test_reading_refuses_an_older_database_and_changes_nothing(engine):
    migrate(engine, "0001")
    with pytest.raises(StoreSchemaError, match=r"schema of an earlier release \(0001.*start the service"):
        prepare(engine, create=False)
    assert not sa.inspect(engine).has_table("trajectory_lives")


def test_a_store_of_a_later_release_is_refused_by_its_name_whoever_opens_it(engine):
    prepare(engine)
    with engine.begin() as connection:
        connection.execute(revision.update(), {"version_num": "9999"})
    for create in (True, False):
        with pytest.raises(StoreSchemaError, match="schema 9999, which this release does not know"):
            prepare(engine, create=create)


def test_a_current_store_is_opened_while_another_process_writes(engine, tmp_path):
    prepare(engine)
    with sqlite3.connect(tmp_path / "store.sqlite") as other:
        other.execute("BEGIN IMMEDIATE")
        prepare(engine)


def test_an_older_store_that_others_use_is_refused_after_a_while(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(upgrade, "WAIT_S", 0.0)
    migrate(engine, "0001")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 10")
    with sqlite3.connect(tmp_path / "store.sqlite") as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreSchemaError, match="others use its tables"):
            prepare(engine)
    prepare(engine)


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(engine):
    migrate(engine, "0001")
    with engine.begin() as connection:
        # The last step drops a table of this name, and a view is none.
        connection.execute(sa.text("CREATE VIEW trajectory_schema AS SELECT 1 AS version"))
    with pytest.raises(OperationalError, match="DROP VIEW"):
        prepare(engine)
    assert not sa.inspect(engine).has_table("trajectory_lives")
    with engine.connect() as connection:
        assert connection.execute(sa.select(revision.c.version_num)).scalar_one() == "0001"


def test_a_database_may_be_upgraded_while_another_service_looks_at_it(engine):
    prepare(engine)
    with engine.begin() as connection:
        make_first_release(connection)
    other = connect(engine.url.render_as_string(hide_password=False))
    upgraded = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def upgrade_meanwhile(connection, cursor, statement, *_):
        if "FROM trajectory_schema" in statement and not upgraded:
            upgraded.append(statement)
            prepare(other)

    prepare(engine)
    assert upgraded
    assert not sa.inspect(engine).has_table("trajectory_schema")
    other.dispose()
