"""Record whether everything that a supervisor answered in an earlier life was recorded.

It was when that life ended in order, or committed each record before its answer and the machine has not
been restarted since, or had its commits on disk. Otherwise instances may lack the last steps that were
answered, and their own records cannot show it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import sqlalchemy as sa

from sandbox_service.config import Durability

from .schema import lives

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sandbox_service.config import StoreConfig


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""File with an id that changes with each start of the machine."""


def is_complete(connection: Connection, supervisor: str) -> bool:
    """Return whether the latest life of a supervisor left nothing out."""
    row = connection.execute(lives.select().where(lives.c.supervisor == supervisor)).first()
    if row is None:
        return False
    return bool(row.ended) or (
        row.durability == Durability.ACKNOWLEDGED and row.needs_boot in ("", _boot_id())
    )


def is_shared(connection: Connection) -> bool:
    """Return whether several supervisors have written to the database."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(lives)).scalar_one()) > 1


def begin_life(connection: Connection, supervisor: str, config: StoreConfig) -> None:
    """Record how a supervisor that starts now writes its records."""
    on_disk = connection.dialect.name != "sqlite" or config.fsync
    values = {
        "durability": config.durability.value,
        "needs_boot": "" if on_disk else _boot_id(),
        "ended": False,
    }
    if not connection.execute(lives.update().where(lives.c.supervisor == supervisor).values(values)).rowcount:
        connection.execute(lives.insert(), {"supervisor": supervisor, **values})


def end_life(connection: Connection, supervisor: str) -> None:
    """Record that a supervisor ended in order, with all records written."""
    connection.execute(lives.update().where(lives.c.supervisor == supervisor).values(ended=True))


def _boot_id() -> str:
    """Return the kernel's id of this boot; where it cannot be read, an id that matches no boot."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return uuid4().hex
