"""One HTTP request on its way through the gateway: its id, its tenant, and what became of it."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

    from sandbox_service.contract.problems import ErrorCode

__all__ = ["ABANDONED", "EXCHANGE", "UNMATCHED", "Exchange", "begin", "collapse_slashes"]

EXCHANGE = "sandbox_service.exchange"
"""Key under which the ASGI scope carries the exchange."""
ABANDONED = 499
"""Status of requests whose client went away before the answer; it exists in logs and metrics only."""
UNMATCHED = "unmatched"
"""Route name of requests that no route takes; keeps unknown paths out of the metrics' labels."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_SLASHES = re.compile("//+")


@dataclass(slots=True)
class Exchange:
    """What the parts of the gateway know of the request that they work on."""

    request_id: str
    method: str
    path: str
    headers: dict[bytes, bytes]
    query: bytes = b""
    started: float = field(default_factory=time.perf_counter)
    route: str = UNMATCHED
    tenant: str = ""
    instance_id: str | None = None
    status: int = ABANDONED
    error: ErrorCode | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the request came."""
        return time.perf_counter() - self.started


def begin(scope: Scope) -> Exchange:
    """The exchange of a request; its id is the caller's when that is well formed."""
    headers = dict(scope["headers"])
    given = headers.get(b"x-request-id", b"")
    request_id = given.decode() if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
    return Exchange(
        request_id, scope["method"], collapse_slashes(scope["path"]), headers, scope.get("query_string", b"")
    )


def collapse_slashes(path: str) -> str:
    """The path with runs of slashes made one: some releases of a common client send two."""
    return _SLASHES.sub("/", path) if "//" in path else path
