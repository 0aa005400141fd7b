"""Waits until the service answers that it is ready, as its users would ask."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NotReadyError", "reachable_host", "wait_until_ready"]

_POLL_S = 0.1
_ANSWER_S = 5.0


class NotReadyError(RuntimeError):
    """The service did not become ready in time; the sentence says what it answered last."""


def reachable_host(host: str) -> str:
    """An address by which this machine reaches a server that listens on ``host``."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)


def wait_until_ready(host: str, port: int, timeout_s: float, check: Callable[[], None]) -> None:
    """Ask ``/readyz`` until it answers 200. ``check`` runs in between, and raises when waiting is in vain."""
    deadline = time.monotonic() + timeout_s
    while (answer := _ask(host, port)) is not None:
        check()
        if time.monotonic() >= deadline:
            raise NotReadyError(f"not ready after {timeout_s:.0f} s: {answer}")
        time.sleep(_POLL_S)


def _ask(host: str, port: int) -> str | None:
    """None when the service is ready, else what it said."""
    connection = http.client.HTTPConnection(reachable_host(host), port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read(1000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return None if response.status == 200 else f"HTTP {response.status} {body}"
