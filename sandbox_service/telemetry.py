"""Structured logs: one line per event on standard error, as JSON or as text.

A module may call ``get_logger`` when it is imported; output is configured only when the entry point of a
process calls ``configure_logging``. Lines of the standard library's loggers get the same format. Values whose
keywords may hold a secret or a body are withheld, whichever module logs them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO, cast

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


LEVELS = ("debug", "info", "warning", "error")

_WITHHELD = frozenset(
    {
        "api_key",
        "api_keys",
        "authorization",
        "body",
        "content",
        "cookie",
        "headers",
        "message",
        "messages",
        "observation",
        "password",
        "request",
        "response",
        "secret",
        "token",
    }
)

_CHATTY = ("aiohttp.access", "docker", "httpcore", "httpx", "urllib3", "uvicorn.access")
"""Loggers that write a line per request; only their warnings pass."""


def configure_logging(level: str = "info", *, json: bool = False, stream: TextIO | None = None) -> None:
    """Write all logs of this process at ``level`` and above to ``stream``, by default standard error.

    A later call replaces the settings of an earlier one. Raises ValueError for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}; expected one of: {', '.join(LEVELS)}")
    target = stream if stream is not None else sys.stderr
    last: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if json
        # Without the variables of each frame, which may hold keys and bodies.
        else structlog.dev.ConsoleRenderer(
            colors=target.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    before: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if json:
        before.append(structlog.processors.format_exc_info)
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=[*_shared()], processors=[*before, last])
    )
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module, ``__name__``. Events are named in snake_case; details are keywords."""
    # wrap_logger, because structlog's own default would print to standard output until it is configured.
    return cast(
        "structlog.stdlib.BoundLogger",
        structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                *_shared(),
                structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        ),
    )


def _shared() -> Iterator[Processor]:
    yield structlog.stdlib.add_log_level
    yield structlog.stdlib.add_logger_name
    yield structlog.processors.TimeStamper(fmt="iso", utc=True, key="at")
    yield _withhold


def _withhold(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name in _WITHHELD & event.keys():
        event[name] = "(withheld)"
    return event
