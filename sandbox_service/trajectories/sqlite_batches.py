"""Write batches into an SQLite file by the driver's own connection, which stays open.

An answer waits for its commit, and SQLAlchemy's overhead for a small transaction exceeds SQLite's own time.
A batch that fails here is left to ``inserts``, which handles refused records.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import OperationalError

from .ownership import FencedError
from .records import EventRecord, InstanceRecord
from .rows_of_records import event_row, instance_row
from .schema import events, instances

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine
    from sqlalchemy.pool import PoolProxiedConnection
    from sqlalchemy.sql import Insert

    from .ownership import Epoch
    from .rows_of_records import Record, Value


_INSTANCE_COLUMNS = list(instance_row(InstanceRecord("", "", "", "", "", 0.0, 0)))
_NEWEST = "SELECT epoch FROM trajectory_lives WHERE supervisor=?"
_END_INSTANCE = "UPDATE instances SET ended_at=?, ended_by=? WHERE instance_id=? AND ended_at IS NULL"


def _insert(statement: Insert, columns: list[str]) -> str:
    return str(statement.compile(dialect=sqlite.dialect(), column_keys=columns))


_INSERT_INSTANCE = _insert(instances.insert(), _INSTANCE_COLUMNS)
_INSERT_EVENT = _insert(events.insert(), [column.name for column in events.columns])


class SqliteBatches:
    """The connection of the writer's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: PoolProxiedConnection | None = None

    def write(self, batch: Sequence[Record], epoch: Epoch | None) -> bool:
        """Write a batch in one transaction; return False, with nothing written, when a record is refused.

        Raises OperationalError, as SQLAlchemy does, while the database cannot write, and FencedError.
        """
        connection = self._connection
        if connection is None:
            connection = self._connection = self._engine.raw_connection()
        try:
            _execute(connection.driver_connection, batch, epoch)
        except FencedError:
            self.close()
            raise
        except sqlite3.OperationalError as error:
            self.close()
            raise OperationalError("a batch of records", None, error) from error
        except Exception:  # noqa: BLE001 - binding a value may raise anything; inserts finds out which record
            self.close()
            return False
        return True

    def close(self) -> None:
        """Return the connection to the pool, without what is not committed. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # The pool rolls back an open transaction.
            connection.close()


def _execute(
    connection: Any,  # noqa: ANN401 - a driver's connection
    batch: Sequence[Record],
    epoch: Epoch | None,
) -> None:
    begun: list[tuple[Value, ...]] = []
    happened: list[tuple[Value, ...]] = []
    ended: list[tuple[Value, ...]] = []
    for record in batch:
        if isinstance(record, EventRecord):
            happened.append(tuple(event_row(record).values()))
            if record.kind.ends:
                ended.append((record.at, record.kind.value, record.instance_id))
        else:
            begun.append(tuple(instance_row(record).values()))
    # Instances before the events that refer to them, and ends last: one batch may hold a whole instance.
    if begun:
        connection.executemany(_INSERT_INSTANCE, begun)
    if happened:
        connection.executemany(_INSERT_EVENT, happened)
    if ended:
        connection.executemany(_END_INSTANCE, ended)
    # Last, because the writes above took the lock under which the epoch cannot change any more.
    if epoch is not None and connection.execute(_NEWEST, (epoch.supervisor,)).fetchone() != (epoch.number,):
        raise FencedError(epoch)
    connection.commit()
