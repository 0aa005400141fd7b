"""The state of an HTTP request in the gateway: its id, its tenant and its outcome."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_service.config import Rights

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from starlette.types import Scope

    from sandbox_contract.problems import ErrorCode

    from .fair_queue import Permit


EXCHANGE = "sandbox_service.exchange"
"""Key under which the ASGI scope carries the exchange."""
ABANDONED = 499
"""Status of requests whose client disconnected before the response; for logs and metrics only."""
UNMATCHED = "unmatched"
"""Route name of requests without a route, to keep unknown paths out of the metrics' labels."""

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_SLASHES = re.compile("//+")


@dataclass(slots=True)
class HttpExchange:
    """The data that the parts of the gateway share about a request."""

    request_id: str
    method: str
    path: str
    headers: dict[bytes, bytes]
    query: bytes = b""
    id_is_malformed: bool = False
    """The caller sent a malformed request id."""
    started: float = field(default_factory=time.perf_counter)
    route: str = UNMATCHED
    tenant: str = ""
    rights: Rights = Rights.READ
    """The rights of the caller's key, once it is known."""
    instance_id: str | None = None
    status: int = ABANDONED
    error: ErrorCode | None = None
    body_bytes: int = 0
    """Bytes of its body that BodyReader counts."""
    answer_bytes: int = 0
    """Bytes of its answer that AnswerSender counts."""
    executed: bool = False
    """An operation was sent to the fleet, so that without a key a repetition executes it again."""
    hang_up: bool = False
    """Its body was not read completely, so the connection closes after the response."""
    span: Span | None = None
    """Its span, if its trace is sampled."""
    traceparent: str | None = None
    """The position of the span in the trace, for the supervisor."""
    permit: Permit | None = None
    """Its permit of the fair queue, if there are several tenants."""

    @property
    def last_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Headers that depend on the request's outcome."""
        return ((b"connection", b"close"),) if self.hang_up else ()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the request arrived."""
        return time.perf_counter() - self.started


def begin(scope: Scope) -> HttpExchange:
    """Return the exchange of a request; its id is the caller's if that is well formed."""
    headers = dict(scope["headers"])
    given = headers.get(b"x-request-id")
    usable = given is not None and _REQUEST_ID.fullmatch(given) is not None
    return HttpExchange(
        given.decode() if given is not None and usable else uuid.uuid4().hex,
        scope["method"],
        collapse_slashes(scope["path"]),
        headers,
        scope.get("query_string", b""),
        id_is_malformed=given is not None and not usable,
    )


def collapse_slashes(path: str) -> str:
    """Return the path with repeated slashes collapsed; some releases of a common client send two."""
    return _SLASHES.sub("/", path) if "//" in path else path
