"""Open the trajectory store of a command, and turn its errors into messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from sqlalchemy.exc import SQLAlchemyError

from sandbox_service.config import StoreConfig
from sandbox_service.config.reading import read_config
from sandbox_service.trajectories.store import open_existing
from sandbox_service.trajectories.upgrade import StoreSchemaError

from .terminal import WRONG, explained, fail

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

DEFAULT_URL = StoreConfig().url

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="SANDBOX_STORE_URL",
        help=f"URL of the store, in place of --config. Default: {DEFAULT_URL}",
    ),
]
StoreConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", dir_okay=False, help="The service's TOML file: its store is used."
    ),
]


@contextmanager
def opened_store(url: str | None, config: Path | None) -> Iterator[Engine]:
    """Yield the engine of an existing store; an error becomes a message and an exit code.

    It is the one at ``url`` or that of the configuration, by default the one that `serve` makes without any.
    """
    try:
        with open_existing(_chosen(url, config)) as engine:
            yield engine
    except FileNotFoundError as error:
        sentence = "name the service's store with --config or --url, or run the service first"
        raise fail(f"{error}; {sentence}") from error
    except (ValueError, StoreSchemaError) as error:
        raise fail(str(error)) from error
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise fail(f"the database failed: {reason} (is the URL right and the database running?)") from error


def _chosen(url: str | None, config: Path | None) -> str:
    if config is None:
        return DEFAULT_URL if url is None else url
    if url is not None:
        raise fail("two stores are named: with --config, leave out --url and SANDBOX_STORE_URL", WRONG)
    with explained():
        return read_config(config).store.url
