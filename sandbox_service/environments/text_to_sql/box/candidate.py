"""The candidate's process: builds databases from seeds, and runs a model's query on them.

It runs under a user id of its own, and its answers are data. For an evaluation it gets seeds that no
episode reveals; it is killed afterwards. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .database import build_database
from .reading import QueryError, prepare_for_reading, run_query
from .schema import load_schema

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject


def serve(receive: Callable[[], JsonObject], send: Callable[[JsonObject], None]) -> None:
    """Answer requests until there are no more: ``schema``, ``seed``, ``query`` and ``most_rows``."""
    while True:
        try:
            request = receive()
        except EOFError:
            return
        send(_answer(request))


def _answer(request: JsonObject) -> JsonObject:
    """Return ``columns``, ``rows`` and ``more``, or an ``error`` for the model."""
    database = build_database(load_schema(request["schema"]), request["seed"])
    try:
        prepare_for_reading(database)
        found = run_query(database, request["query"], request["most_rows"])
    except QueryError as error:
        return {"error": str(error)}
    finally:
        database.close()
    return {"columns": found.columns, "rows": found.rows, "more": found.more}
