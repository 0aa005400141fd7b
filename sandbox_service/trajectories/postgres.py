"""Connect to a PostgreSQL server so that neither side waits for the other for long.

A node that vanishes within a transaction leaves its locks to the server, and a server that vanishes behind a
proxy leaves its clients to wait: by themselves, both notice it after two hours. So the server is asked to
end such sessions, and a store that serves gives up statements that are not answered: its connection is
closed, and the pool replaces it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import errors

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from sqlalchemy.engine import URL, Connection, Engine


SILENCE_S = 8.0
"""Longest silence of the server during a statement of a store that serves. It is shorter than the defaults of
``store.max_failing_s`` and ``store.lease_s``: a new connection may come before an operation fails."""
PATIENCE_S = 600.0
"""The same for transactions that read all that was recorded within a day, or whose outcome must be known."""

# Without the first, a database of the encoding SQL_ASCII answers bytes in place of texts.
_PARAMETERS = {
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "application_name": "sandbox-service",
}
"""Parameters of libpq."""

_SESSION = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "15s",
}
"""Settings of each session, by which the server notices that a client has vanished."""
_SERVING = {"tcp_user_timeout": "15s", "lock_timeout": "5s", "statement_timeout": "60s"}
"""Further settings of a store that serves. Locks have less time than ``SILENCE_S``, so that the server
answers before the client gives up; the time of a statement counts the sending of a long history, too."""

_SET = (
    "SELECT set_config(wanted.name, wanted.value, false) "
    "FROM unnest(%s::text[], %s::text[]) AS wanted (name, value) JOIN pg_settings USING (name) "
    "WHERE source <> 'client'"
)
"""Sets what this version of the server knows, unless the URL sets it. Not among the parameters of the
connection, since PgBouncer refuses those that it does not know."""

LATE = (
    errors.ConnectionTimeout,
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
)
"""Errors that say that something took too long."""

_T = TypeVar("_T")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed when the server says nothing for too long during a statement."""

    silence_s: float | None = None
    """None waits for as long as the connection exists."""

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        """Run what waits for the server; psycopg does so for everything after connecting."""
        return super().wait(gen if self.silence_s is None else self._bounded(gen), interval, timeout)

    def _bounded(self, gen: PQGen[_T]) -> PQGen[_T]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif self.silence_s is not None and time.monotonic() - heard > self.silence_s:
                    self.pgconn.finish()
                    raise errors.QueryCanceled(f"the server has not answered for {self.silence_s:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            result: _T = done.value
            return result


def open_postgres(url: URL, *, serving: bool) -> Engine:
    """Return the engine of a server; with ``serving`` no statement waits for long."""
    query = {**_PARAMETERS, **url.query}
    engine = sa.create_engine(url.set(query=query), pool_pre_ping=True, pool_size=5, max_overflow=0)
    settings = {**_SESSION, **(_SERVING if serving else {})}

    @sa.event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, arguments: Any, parameters: Any) -> BoundedConnection:  # noqa: ANN401 - of any driver
        connection = BoundedConnection.connect(*arguments, **parameters)
        try:
            connection.silence_s = SILENCE_S if serving else None
            connection.execute(_SET, (list(settings), list(settings.values())))
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    return engine


@contextmanager
def patient(connection: Connection) -> Iterator[None]:
    """Let the statements of a transaction take up to ``PATIENCE_S``."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection), "the engine is from open_postgres()"
    usual = driver.silence_s
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{PATIENCE_S:.0f}s'")
    driver.silence_s = PATIENCE_S
    try:
        yield
    finally:
        driver.silence_s = usual
