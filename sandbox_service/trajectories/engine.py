"""Connect to the store's database, with the settings that make each kind durable and responsive."""

from __future__ import annotations

import os
import re
import stat
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.exc import SQLAlchemyError


LOCK_NOT_AVAILABLE = "55P03"
"""PostgreSQL's code for a lock that was not granted in time."""

_PASSWORDS = ("password", "sslpassword")
_SECRETS = (
    # Also the colons, slashes and @ of a password, which keep a text from being a URL.
    (re.compile(r":(?!//).*@", re.DOTALL), ":***@"),
    (re.compile(r"(password=)[^&]*"), r"\1***"),
)
"""Passwords in a text that is no URL, with their replacements."""

_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA busy_timeout=5000",
    "PRAGMA journal_size_limit=67108864",
    # A checkpoint within a commit waits for the disk, and answers for the commit: ``checkpoints`` makes them
    # earlier. This limit, 250 MiB, is for commits that leave it no pause.
    "PRAGMA wal_autocheckpoint=64000",
)


def connect(url: str, *, create: bool = True, fsync: bool = False, serving: bool = False) -> Engine:
    """Return the engine of a store's URL; creates the folder of an SQLite file unless ``create`` is off.

    ``fsync`` makes each commit to an SQLite file wait for the disk. ``serving`` has statements fail that wait
    for long for a server or for its locks.

    Raises ValueError for a URL of another kind, and FileNotFoundError for a missing file.
    """
    parsed = store_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, create=create, fsync=fsync)
    # Imported here, since a store in a file needs no driver, which takes a while to import.
    from .postgres import open_postgres

    return open_postgres(parsed, serving=serving)


def unhurried(connection: Connection) -> AbstractContextManager[None]:
    """Let the statements of a transaction take minutes."""
    if connection.dialect.name == "sqlite":
        return nullcontext()
    from .postgres import patient

    return patient(connection)


def is_late(error: SQLAlchemyError) -> bool:
    """Return whether a statement failed since it, or its connection, took too long."""
    cause = getattr(error, "orig", None)
    if not isinstance(error, DBAPIError) or not hasattr(cause, "sqlstate"):
        return False
    from .postgres import LATE

    return isinstance(cause, LATE)


def shown_url(url: str | URL) -> str:
    """Return a URL as it may be shown: without passwords, also those among libpq's parameters.

    Of a text that is no URL only what may be a password goes, since its reader looks for what is wrong.
    """
    try:
        parsed = make_url(url)
    # The second comes of a port that is no number.
    except (ArgumentError, ValueError):
        text = str(url)
        for pattern, shown in _SECRETS:
            text = pattern.sub(shown, text)
        return text
    return parsed.difference_update_query(_PASSWORDS).render_as_string(hide_password=True)


def store_url(text: str) -> URL:
    """Return a store's URL with the driver that is used for it. Raises ValueError for one of another kind."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Without the first error, whose text may be a part of the password.
        raise ValueError(f"store.url is not the URL of a database: {shown_url(text)}") from None
    backend = url.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ValueError(f"store.url names {backend!r}; only sqlite and postgresql are supported")
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise ValueError("store.url must name an SQLite file, such as sqlite:///var/trajectories.sqlite")
    return url.set(drivername="sqlite+pysqlite")


def _sqlite(url: URL, *, create: bool, fsync: bool) -> Engine:
    path = Path(str(url.database))
    if create:
        # Where a link leads, since SQLite makes the database and the files beside it there.
        file = Path(os.path.realpath(path))
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _keep_private(file)
    elif not path.is_file():
        raise FileNotFoundError(f"there is no trajectory store at {path}")
    engine = sa.create_engine(url, pool_size=5, max_overflow=0)

    @sa.event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: object) -> None:  # noqa: ANN401 - a DBAPI connection has no type
        cursor = connection.cursor()
        # In WAL mode a commit survives the process in either case; FULL also survives a power failure.
        for pragma in (*_SQLITE_PRAGMAS, f"PRAGMA synchronous={'FULL' if fsync else 'NORMAL'}"):
            cursor.execute(pragma)
        cursor.close()

    return engine


def _keep_private(path: Path) -> None:
    """Deny other users the trajectories, which belong to all tenants; a group's rights stay as they are.

    SQLite gives the files beside the database the database's own mode.
    """
    path.touch(mode=0o600)
    mode = stat.S_IMODE(path.stat().st_mode) & ~0o007
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        # Only a file's owner can change its mode.
        with suppress(FileNotFoundError, PermissionError):
            file.chmod(mode)
