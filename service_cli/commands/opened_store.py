"""Open the trajectory store of a command, and turn its errors into messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from sandbox_service.config import StoreConfig
from sandbox_service.trajectories.store import open_existing
from sandbox_service.trajectories.upgrade import StoreSchemaError

from .terminal import fail

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

DEFAULT_URL = StoreConfig().url

Url: TypeAlias = Annotated[
    str, typer.Option("--url", envvar="SANDBOX_STORE_URL", help="The store: store.url of the configuration.")
]


@contextmanager
def opened_store(url: str) -> Iterator[Engine]:
    """Yield the engine of an existing store; an error becomes a message and an exit code."""
    try:
        with open_existing(url) as engine:
            yield engine
    except FileNotFoundError as error:
        raise fail(f"{error}; set the service's store with --url, or run the service first") from error
    except (ArgumentError, ValueError, StoreSchemaError) as error:
        raise fail(str(error)) from error
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise fail(f"the database failed: {reason} (is --url right and the database running?)") from error
