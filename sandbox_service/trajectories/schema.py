"""The tables of the trajectory store, and the check that a database has exactly these.

``instances`` has one row per instance, ``events`` one row per operation with the bytes of its request and
result. Rows of ``events`` never change; a row of ``instances`` is marked once, when the instance ends, so
that a restarting supervisor finds unfinished instances by an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine


SCHEMA_VERSION = 1

_LOCK = 7_305_211_948
"""PostgreSQL advisory lock under which the supervisors of all nodes create the tables, one at a time."""

metadata = sa.MetaData()

version = sa.Table(
    "trajectory_schema",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)

instances = sa.Table(
    "instances",
    metadata,
    sa.Column("instance_id", sa.Text, primary_key=True),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("supervisor", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("params_json", sa.LargeBinary, nullable=False),
    sa.Column("parent", sa.Text),
    sa.Column("fork_sequence", sa.BigInteger),
    sa.Column("ended_at", sa.Double),
    sa.Column("ended_by", sa.Text),
    sa.Index("instances_by_time", "created_at", "instance_id"),
    sa.Index(
        "instances_unended",
        "supervisor",
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    ),
)

_CREATE_KEY = sa.text("kind = 'create' AND idempotency_key IS NOT NULL")

events = sa.Table(
    "events",
    metadata,
    sa.Column("instance_id", sa.Text, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("response", sa.LargeBinary, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("idempotency_key", sa.Text),
    sa.Column("reward", sa.Double),
    sa.Column("timing_ms", sa.Text, nullable=False),
    sa.Index("events_create_key", "idempotency_key", sqlite_where=_CREATE_KEY, postgresql_where=_CREATE_KEY),
)


lives = sa.Table(
    "trajectory_lives",
    metadata,
    sa.Column("supervisor", sa.Text, primary_key=True),
    sa.Column("durability", sa.Text, nullable=False),
    sa.Column("needs_boot", sa.Text, nullable=False),
    sa.Column("ended", sa.Boolean, nullable=False),
)
"""One row per supervisor: how its latest life wrote. Databases of earlier versions lack it and get it."""


class StoreSchemaError(Exception):
    """The database is not a trajectory store of this version; the text says what to do."""


def prepare(engine: Engine, *, create: bool = True) -> None:
    """Create the tables in an empty database, or check that they are of this version.

    Raises StoreSchemaError when they are not, and for an empty database unless ``create``; then it changes
    nothing.
    """
    name = engine.url.render_as_string(hide_password=True)
    try:
        with engine.begin() as connection:
            # Before the look at the tables: two supervisors would both find none and both create them.
            if create:
                _lock(connection)
            tables = set(sa.inspect(connection).get_table_names())
            if version.name in tables:
                _check(connection, name)
                if create:
                    lives.create(connection, checkfirst=True)
            elif tables & {instances.name, events.name}:
                raise StoreSchemaError(
                    f"{name} has tables named instances or events that are not a trajectory store's; "
                    "set store.url to another database"
                )
            elif not create:
                raise StoreSchemaError(
                    f"{name} holds no trajectories; set store.url to the service's database"
                )
            else:
                metadata.create_all(connection)
                connection.execute(version.insert(), {"version": SCHEMA_VERSION})
    except DatabaseError as error:
        if "not a database" in str(error.orig):
            raise StoreSchemaError(f"{name} is not an SQLite file; set store.url to another path") from error
        raise


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        # A deferred transaction would take the write lock only at the first write, after the look.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _check(connection: Connection, name: str) -> None:
    found = connection.execute(sa.select(version.c.version)).scalars().all()
    if list(found) != [SCHEMA_VERSION]:
        written = ", ".join(str(number) for number in found) or "none"
        raise StoreSchemaError(
            f"{name} has schema version {written} and this service writes version {SCHEMA_VERSION}; "
            "use the service that wrote it to export it, or set store.url to a new database"
        )
