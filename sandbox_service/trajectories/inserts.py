"""Insert a batch of records into the database in one transaction, in the order in which they were queued.

A batch that the database refuses for its content, and not for the database's own state, is written again
record by record: rows that exist already (a commit whose answer was lost) are skipped, and rows that can
never be written are logged and counted, so that one of them does not block the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from sandbox_service.telemetry import get_logger

from .ownership import require_epoch
from .records import EventRecord
from .rows_of_records import event_row, instance_row
from .schema import events, instances

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

    from .ownership import Epoch
    from .rows_of_records import Record, Row


_INSERT_INSTANCE = instances.insert()
_INSERT_EVENT = events.insert()
_END_INSTANCE = (
    instances.update()
    .where(instances.c.instance_id == sa.bindparam("b_id"), instances.c.ended_at.is_(None))
    .values(ended_at=sa.bindparam("b_at"), ended_by=sa.bindparam("b_kind"))
)

# Drivers raise various errors for a value that they cannot bind: too large a number, half a surrogate pair.
_REFUSALS = (StatementError, OverflowError, TypeError, ValueError)

logger = get_logger(__name__)


def write_batch(engine: Engine, batch: Sequence[Record], epoch: Epoch | None = None) -> int:
    """Write a batch and return the number of records that can never be written.

    Raises SQLAlchemyError when the database cannot write now, and FencedError when ``epoch`` is over; then
    nothing of the batch is written.
    """
    try:
        with engine.begin() as connection:
            _require(connection, epoch)
            _insert(connection, batch)
    except _REFUSALS as error:
        if not _is_refusal(error):
            raise
        logger.warning("trajectory_batch_refused", records=len(batch), reason=_reason(error))
        return _write_singly(engine, batch, epoch)
    return 0


def _insert(connection: Connection, batch: Sequence[Record]) -> None:
    begun: list[Row] = []
    happened: list[Row] = []
    ended: list[Row] = []
    for record in batch:
        if isinstance(record, EventRecord):
            happened.append(event_row(record))
            if record.kind.ends:
                ended.append({"b_id": record.instance_id, "b_at": record.at, "b_kind": record.kind.value})
        else:
            begun.append(instance_row(record))
    if begun:
        connection.execute(_INSERT_INSTANCE, begun)
    if happened:
        connection.execute(_INSERT_EVENT, happened)
    if ended:
        connection.execute(_END_INSTANCE, ended)


def _require(connection: Connection, epoch: Epoch | None) -> None:
    # First, as in a claim: locks that are taken in another order deadlock.
    if epoch is not None:
        require_epoch(connection, epoch)


def _write_singly(engine: Engine, batch: Sequence[Record], epoch: Epoch | None) -> int:
    rejected = 0
    with engine.begin() as connection:
        _require(connection, epoch)
        for record in batch:
            try:
                with connection.begin_nested():
                    _insert(connection, [record])
            except _REFUSALS as error:
                if not _is_refusal(error):
                    raise
                if not (isinstance(error, IntegrityError) and _is_written(connection, record)):
                    rejected += 1
                    _log_rejected(record, error)
    return rejected


def _is_refusal(error: Exception) -> bool:
    """Return whether the record is at fault, and not the state of the database."""
    return isinstance(error, IntegrityError | DataError) or not isinstance(error, DBAPIError)


def _is_written(connection: Connection, record: Record) -> bool:
    if isinstance(record, EventRecord):
        row, table = event_row(record), events
    else:
        row, table = instance_row(record), instances
    same = [column == row[column.name] for column in table.primary_key.columns]
    found = connection.execute(sa.select(*(table.c[name] for name in row)).where(*same)).mappings().first()
    return found is not None and dict(found) == row


def _log_rejected(record: Record, error: Exception) -> None:
    sequence = record.sequence if isinstance(record, EventRecord) else None
    logger.error(
        "trajectory_record_rejected",
        instance_id=record.instance_id,
        sequence=sequence,
        reason=_reason(error),
    )


def _reason(error: Exception) -> str:
    # The text of a StatementError contains the statement's parameters: the bodies of requests.
    what = error.orig if isinstance(error, StatementError) else ""
    return f"{type(error).__name__}: {what}".splitlines()[0]
