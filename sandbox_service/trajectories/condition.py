"""Look at a trajectory store without changing it: whether it can be used, and how its clock runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from .engine import connect, shown_url, store_url
from .rights import lacking_file_rights, lacking_rights
from .schema import REVISION
from .upgrade import StoreSchemaError, found_revision, known_revisions

_ENCODINGS = ("UTF8", "SQL_ASCII")
"""Encodings of a server that hold any text; SQL_ASCII keeps the bytes of the client's."""

_NO_PRIVILEGE = "42501"
"""PostgreSQL's code for what a user may not do."""

_RIGHTS_OF_FILES = (
    "give the file, those beside it and their folder to the user of the service (chown), or set store.url to "
    "another file"
)
_RIGHTS_OF_SERVERS = (
    "make the user of store.url the owner of the database (ALTER DATABASE ... OWNER TO ...) and of its "
    "tables, or grant the rights; for a standby, name its primary server"
)


class StoreState(StrEnum):
    """The answer to whether a service can use a database as its store."""

    CURRENT = "current"
    """It has the tables of this release."""
    EMPTY = "empty"
    """It has no tables, or is a file that does not exist and can be made; the first start creates them."""
    OLDER = "older"
    """It has the tables of an earlier release; the first start upgrades them."""
    FOREIGN = "foreign"
    """It belongs to a later release or to another application."""
    DENIED = "denied"
    """It does not let this user do what the service does with it, such as writing."""
    UNREACHABLE = "unreachable"
    """It does not answer, or refuses this user."""
    INVALID = "invalid"
    """The URL is no URL of a store."""


@dataclass(frozen=True, slots=True)
class StoreCondition:
    """The condition of a store."""

    state: StoreState
    kind: str
    """``sqlite`` or ``postgresql``; empty for an invalid URL."""
    detail: str
    """The URL without its password, or the reason why it cannot be used."""
    clock_ahead_s: float | None = None
    """Seconds by which the database's clock is ahead of this machine's; None for a file, which has none."""

    @property
    def remedy(self) -> str:
        """The way to have a store that is usable; empty where nothing is to be done."""
        match self.state:
            case StoreState.CURRENT | StoreState.EMPTY:
                return ""
            case StoreState.OLDER:
                return "back it up; the first start upgrades it, and earlier releases then refuse it"
            case StoreState.FOREIGN:
                return "set store.url to the service's own database, or start the release that wrote this one"
            case StoreState.DENIED:
                return _RIGHTS_OF_FILES if self.kind == "sqlite" else _RIGHTS_OF_SERVERS
            case StoreState.UNREACHABLE:
                return "start the database, and correct host, user and password in store.url"
            case StoreState.INVALID:
                return "set store.url to sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"


class StoreUnreachableError(Exception):
    """The database cannot be connected to; the text says to which, why, and what to do."""


def examine_store(url: str) -> StoreCondition:
    """Return the condition of a store. Reads only; waits at most 5 s for a server."""
    try:
        parsed = store_url(url)
    except (ValueError, SQLAlchemyError) as error:
        return StoreCondition(StoreState.INVALID, "", str(error))
    kind = parsed.get_backend_name()
    name = shown_url(parsed)
    file = store_file(url)
    if file is not None:
        return _examine_file(file, kind, name)
    return _examine(connect(url, serving=True), kind, name)


def _examine_file(file: Path, kind: str, name: str) -> StoreCondition:
    lacking = lacking_file_rights(file)
    denied = StoreCondition(StoreState.DENIED, kind, lacking) if lacking else None
    if not os.path.exists(file):  # noqa: PTH110 - unlike Path.exists, it raises nothing for closed folders
        return denied or StoreCondition(StoreState.EMPTY, kind, name)
    if denied is not None:
        # No rights help with the file of another application. As one that does not change, SQLite reads it
        # without its log, which may hide tables of a store, and makes no files of this user beside it.
        found = _examine(sa.create_engine(_read_only(file, immutable="1")), kind, name)
        return found if found.state is StoreState.FOREIGN else denied
    # Not by ``connect``: its settings change the file, which may be that of another application.
    return _examine(sa.create_engine(_read_only(file)), kind, name)


def _examine(engine: sa.Engine, kind: str, name: str) -> StoreCondition:
    try:
        with engine.connect() as connection:
            state = _state(connection, name)
            ahead_s = _clock_ahead(connection)
            lacking = _lacking(connection, state)
            if lacking is not None:
                return StoreCondition(StoreState.DENIED, kind, f"{name}: {lacking}", ahead_s)
            return StoreCondition(state, kind, name, ahead_s)
    except StoreSchemaError as error:
        return StoreCondition(StoreState.FOREIGN, kind, str(error))
    except DatabaseError as error:
        if "not a database" in str(error.orig):
            return StoreCondition(StoreState.FOREIGN, kind, f"{name} is not an SQLite file")
        refused = getattr(error.orig, "sqlstate", None) == _NO_PRIVILEGE
        state = StoreState.DENIED if refused else StoreState.UNREACHABLE
        return StoreCondition(state, kind, f"{name}: {_one_line(error)}")
    finally:
        engine.dispose()


def unreachable(url: URL, error: DatabaseError) -> StoreUnreachableError:
    """Return the error of a database to which no connection could be made."""
    name = shown_url(url.set(query={}))
    return StoreUnreachableError(
        f"the database {name} does not answer or refuses this user: {_one_line(error)}; start it, or correct "
        "store.url"
    )


def store_file(url: str) -> Path | None:
    """Return the file of an SQLite store; None for a server or an invalid URL."""
    try:
        parsed = store_url(url)
    except (ValueError, SQLAlchemyError):
        return None
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def with_absolute_file(url: str) -> str:
    """Return the URL with the absolute path of an SQLite store's file; any other URL unchanged."""
    file = store_file(url)
    if file is None or file.is_absolute():
        return url
    return make_url(url).set(database=str(file.resolve())).render_as_string(hide_password=False)


def _read_only(file: Path, **more: str) -> URL:
    query = {"mode": "ro", "uri": "true", **more}
    return URL.create("sqlite+pysqlite", database=file.absolute().as_uri(), query=query)


def _state(connection: sa.Connection, name: str) -> StoreState:
    _check_encoding(connection, name)
    found = found_revision(connection, name)
    if found is None:
        return StoreState.EMPTY
    if found == REVISION:
        return StoreState.CURRENT
    if found in known_revisions():
        return StoreState.OLDER
    raise StoreSchemaError(f"{name} has schema {found}, which this release does not know ({REVISION})")


def _lacking(connection: sa.Connection, state: StoreState) -> str | None:
    if connection.dialect.name == "sqlite":
        return None
    return lacking_rights(connection, current=state is StoreState.CURRENT)


def _check_encoding(connection: sa.Connection, name: str) -> None:
    """Refuse a server's database that cannot hold every text: an episode with another one would be lost."""
    if connection.dialect.name == "sqlite":
        return
    encoding = connection.execute(sa.text("SHOW server_encoding")).scalar_one()
    if encoding not in _ENCODINGS:
        raise StoreSchemaError(
            f"{name} has the encoding {encoding}, which does not hold every text; make a database with: "
            "CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0"
        )


def _clock_ahead(connection: sa.Connection) -> float | None:
    if connection.dialect.name == "sqlite":
        return None
    before = time.time()
    there = connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
    # The answer is as old as half of the way there and back.
    return float(there) - (before + time.time()) / 2


def _one_line(error: DatabaseError) -> str:
    return " ".join(str(error.orig).split())
