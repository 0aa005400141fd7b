"""Open a database as a trajectory store: create the tables, upgrade those of an earlier release, or refuse.

Supervisors of several nodes may open one database at the same time, so everything here happens in one
transaction and under a lock.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError

from sandbox_service.telemetry import get_logger

from .engine import LOCK_NOT_AVAILABLE, shown_url
from .schema import REVISION, events, instances, metadata, revision

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy.engine import Connection, Engine

_LOCK = 7_305_211_948
"""PostgreSQL advisory lock under which the supervisors of all nodes create or upgrade the tables."""

WAIT_S = 120.0
"""Time for a store that others use to become free."""
LOCK_S = 2
"""Seconds that an upgrade waits for a lock at a time, and between two times."""
_NO_TABLE = "42P01"
"""PostgreSQL's code for a table that does not exist."""

_FORMER_VERSION = "trajectory_schema"
"""Table of the releases before migrations; their schema is that of revision 0001."""

_MIGRATIONS = Path(__file__).parent / "migrations"

logger = get_logger(__name__)


class StoreSchemaError(Exception):
    """The database is not a trajectory store that this service can use; the text says what to do."""


def prepare(engine: Engine, *, create: bool = True) -> None:
    """Create the tables in an empty database, and upgrade those of an earlier release.

    Without ``create`` nothing is changed, and the database must have the newest schema.

    Raises StoreSchemaError for a database of a later release or of another application, and without
    ``create`` for an empty or an older one.
    """
    name = shown_url(engine.url)
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            _attempt(engine, name, create=create)
        except DatabaseError as error:
            if "not a database" in str(error.orig):
                reason = f"{name} is not an SQLite file; set store.url to another path"
                raise StoreSchemaError(reason) from error
            if not _is_locked(error):
                raise
            if time.monotonic() > deadline:
                raise StoreSchemaError(
                    f"{name} has to be upgraded, and others use its tables, such as a backup in progress or "
                    "supervisors of an earlier release; end them, and start again"
                ) from error
            logger.warning("trajectory_store_locked", database=name)
            time.sleep(LOCK_S)
        else:
            return


def _attempt(engine: Engine, name: str, *, create: bool) -> None:
    if _is_current(engine, name):
        return
    with engine.begin() as connection:
        # Before the look at the tables: two supervisors would both find none and both create them.
        if create:
            _lock(connection)
        _prepare(connection, name, create=create)


def _is_current(engine: Engine, name: str) -> bool:
    """Return whether there is nothing to do, without a lock: it would wait for others that use the tables."""
    try:
        with engine.connect() as connection:
            return found_revision(connection, name) == REVISION
    except DatabaseError as error:
        # The upgrade by another service has dropped a table since the tables were listed.
        if getattr(error.orig, "sqlstate", None) == _NO_TABLE or "no such table" in str(error.orig):
            return False
        raise


def _is_locked(error: DatabaseError) -> bool:
    return getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE or "is locked" in str(error.orig)


def found_revision(connection: Connection, name: str) -> str | None:
    """Return the migration that a database has reached; None if it holds no trajectories.

    Raises StoreSchemaError for the database of another application; ``name`` is its name in the message.
    """
    tables = set(sa.inspect(connection).get_table_names())
    if not tables & {revision.name, _FORMER_VERSION, instances.name, events.name}:
        return None
    return _revision(connection, name, tables)


def known_revisions() -> frozenset[str]:
    """Return all migrations of this release."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_alembic_config())
    return frozenset(script.revision for script in scripts.walk_revisions())


def _prepare(connection: Connection, name: str, *, create: bool) -> None:
    found = found_revision(connection, name)
    if found is None:
        if not create:
            raise StoreSchemaError(f"{name} holds no trajectories; set store.url to the service's database")
        # Much faster than all migrations one after another, and the same: a test compares the two.
        metadata.create_all(connection)
        connection.execute(revision.insert(), {"version_num": REVISION})
        return
    if found == REVISION:
        return
    _check_known(name, found)
    if not create:
        raise StoreSchemaError(
            f"{name} has the schema of an earlier release ({found}, now {REVISION}); "
            "start the service with it once, which upgrades it"
        )
    _upgrade(connection, name, found)


def _revision(connection: Connection, name: str, tables: set[str]) -> str:
    """Return the migration that a database with trajectories has reached."""
    if revision.name in tables:
        found = connection.execute(sa.select(revision.c.version_num)).scalars().all()
        return ", ".join(found) or "none"
    if _FORMER_VERSION not in tables:
        raise StoreSchemaError(
            f"{name} has tables named instances or events that are not a trajectory store's; "
            "set store.url to another database"
        )
    former = connection.execute(sa.text(f"SELECT version FROM {_FORMER_VERSION}")).scalars().all()
    return "0001" if list(former) == [1] else f"version {', '.join(map(str, former)) or 'none'}"


def _check_known(name: str, found: str) -> None:
    if found not in known_revisions():
        raise StoreSchemaError(
            f"{name} has schema {found}, which this release does not know (its newest is {REVISION}); "
            "start the release that wrote it, or set store.url to a new database"
        )


def _upgrade(connection: Connection, name: str, found: str) -> None:
    # Imported here since only an upgrade needs it, and it takes as long as the rest of a start.
    from alembic import command

    logger.info("trajectory_store_upgrade", database=name, found=found, newest=REVISION)
    if not sa.inspect(connection).has_table(revision.name):
        revision.create(connection)
        connection.execute(revision.insert(), {"version_num": found})
    config = _alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _alembic_config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # A deferred transaction would take the write lock only at the first write, after the look.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        # While a migration waits for a table, all statements of others on it wait, too: it gives way soon.
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_S}s'")
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
