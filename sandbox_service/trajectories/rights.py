"""Find the rights that a store lacks for its service, without writing to it."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from local_processes.folders import may_fill

from .schema import create_claims, events, instances, lives

_SERVICE_RIGHTS = {
    instances.name: ("SELECT", "INSERT", "UPDATE"),
    events.name: ("SELECT", "INSERT"),
    lives.name: ("SELECT", "INSERT", "UPDATE"),
    create_claims.name: ("SELECT", "INSERT", "DELETE"),
}
"""Rights that a running service needs on each table; only pruning removes rows of the others."""

_MAY_CREATE = sa.text("SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)")
_LACKS = sa.text(
    "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = :name "
    "AND NOT has_table_privilege(quote_ident(schemaname) || '.' || quote_ident(tablename), :right)"
)
_OF_OTHERS = sa.text(
    "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY(:names) "
    "AND NOT pg_has_role(tableowner, 'USAGE') ORDER BY tablename"
)


def lacking_file_rights(file: Path) -> str | None:
    """Return why an SQLite file cannot be a service's store; None if this user may write it, or make it."""
    # SQLite follows links, and has the files beside the database at their end.
    file = Path(os.path.realpath(file))
    if os.path.isdir(file):  # noqa: PTH112 - raises nothing
        return f"{file} is a folder, not a file"
    # SQLite gives the files beside the database its mode, but not its owner.
    needed = (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm"))
    there = [path for path in needed if os.path.exists(path)]  # noqa: PTH110 - raises nothing
    for path in there:
        if not os.access(path, os.R_OK | os.W_OK):
            return f"{path} cannot be read and written by this user"
    if len(there) < len(needed) and not may_fill(file.parent):
        folder = file.parent.absolute()
        return f"{folder}, the folder of {file.name}, is not one that this user can write to or make"
    return None


def lacking_rights(connection: sa.Connection, *, current: bool) -> str | None:
    """Return why this user cannot use a server's database as a store; None if it can.

    ``current`` says that the tables are there as this release has them; otherwise a start creates or changes
    them.
    """
    if connection.execute(sa.text("SHOW transaction_read_only")).scalar_one() == "on":
        return "its transactions are read-only (a standby, or default_transaction_read_only)"
    if current:
        return _lacking_use(connection)
    if not connection.execute(_MAY_CREATE).scalar_one():
        schema = connection.execute(sa.text("SELECT current_schema()")).scalar_one() or "of its search_path"
        return f"this user may not create tables in the schema {schema}"
    others = connection.execute(_OF_OTHERS, {"names": list(_SERVICE_RIGHTS)}).scalars().all()
    return f"only their owner can upgrade the tables {', '.join(others)}" if others else None


def _lacking_use(connection: sa.Connection) -> str | None:
    lacking = [
        f"{right} on {name}"
        for name, rights in _SERVICE_RIGHTS.items()
        for right in rights
        if connection.execute(_LACKS, {"name": name, "right": right}).scalar_one()
    ]
    return f"this user lacks {', '.join(lacking)}" if lacking else None
