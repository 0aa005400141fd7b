"""The verbs on instances: from a validated request to a frame for the fleet, and back.

The frame's body is the request in one canonical form, whatever spacing, order or unknown message fields
the client's JSON had, so that a repeated request has the same bytes by whichever route it comes. The
reply's body is passed on unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from sandbox_contract.base import IdempotencyKey
from sandbox_contract.episodes import StepRequest
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .operations import VERBS
from .refusals import SchemaError

if TYPE_CHECKING:
    from sandbox_contract.base import Request
    from sandbox_service.wire.frames import Frame, Op

    from .backend import Backend
    from .deadlines import Deadlines
    from .exchange import Exchange


_KEY: TypeAdapter[str] = TypeAdapter(IdempotencyKey)
_IN_META = {"idempotency_key"}
_MOST_PARAMS = 1024 * 1024
"""Bytes of a request other than a step: the supervisor parses these, and steps it only passes on."""


@dataclass(frozen=True, slots=True)
class Call:
    """A validated request, ready to be sent."""

    op: Op
    body: bytes
    """The request in its canonical form."""
    instance_id: str = ""
    key: str | None = None
    """The idempotency key of the body."""
    timeout_s: float | None = None
    """What a step asks for."""
    meta: dict[str, object] = field(default_factory=dict)
    """What the supervisor has to know without reading the body."""


def call_of(request: Request) -> Call:
    """The call of a request. Raises ServiceError for what the schema cannot say."""
    verb = VERBS[type(request)]
    assert verb.op is not None
    meta: dict[str, object] = {}
    timeout_s = None
    if isinstance(request, StepRequest):
        timeout_s = request.timeout_s
        _check_step(request)
        described = {"timeout_s": timeout_s, "step_index": request.step_index}
        meta = {name: value for name, value in described.items() if value is not None}
    body = request.__pydantic_serializer__.to_json(request, exclude_unset=True, exclude=_IN_META)
    if len(body) > _MOST_PARAMS and not isinstance(request, StepRequest):
        raise ServiceError(ErrorCode.BODY_TOO_LARGE, f"a {verb.name} request may have {_MOST_PARAMS} bytes")
    instance_id = getattr(request, "instance_id", None) or ""
    key = getattr(request, "idempotency_key", None)
    return Call(verb.op, body, instance_id, key, timeout_s, meta)


class Verbs:
    """Runs operations on instances through the backend."""

    def __init__(self, backend: Backend, deadlines: Deadlines) -> None:
        self._backend = backend
        self._deadlines = deadlines

    async def run(self, exchange: Exchange, request: Request, key: str | None = None) -> Frame:
        """Run one operation; ``key`` is the idempotency key of the request's headers."""
        return await self.send(exchange, call_of(request), key)

    async def send(self, exchange: Exchange, call: Call, key: str | None = None) -> Frame:
        """Send a call; ``key`` is the idempotency key of the request's headers."""
        meta = {"tenant": exchange.tenant, "request_id": exchange.request_id, **call.meta}
        key = _agreed_key(call.key, key)
        if key is not None:
            meta["key"] = key
        return await self._backend.call(
            call.op,
            tenant=exchange.tenant,
            instance_id=call.instance_id,
            meta=meta,
            body=call.body,
            timeout_s=self._deadlines.of(call.op, call.timeout_s),
        )

    async def ask(
        self,
        exchange: Exchange,
        op: Op,
        instance_id: str,
        details: Mapping[str, object] = MappingProxyType({}),
        body: bytes = b"",
    ) -> Frame:
        """Run an operation that has no request model: files, trajectories, the state of an instance."""
        exchange.instance_id = instance_id
        return await self._backend.call(
            op,
            tenant=exchange.tenant,
            instance_id=instance_id,
            meta={"tenant": exchange.tenant, "request_id": exchange.request_id, **details},
            body=body,
            timeout_s=self._deadlines.of(op),
        )

    async def ask_everyone(
        self,
        exchange: Exchange,
        op: Op,
        timeout_s: float | None = None,
        details: Mapping[str, object] = MappingProxyType({}),
    ) -> list[Frame]:
        """Ask every supervisor; those that do not answer in time are left out."""
        return await self._backend.everywhere(
            op,
            tenant=exchange.tenant,
            meta={"tenant": exchange.tenant, "request_id": exchange.request_id, **details},
            body=b"",
            timeout_s=timeout_s or self._deadlines.of(op),
        )


def header_key(exchange: Exchange) -> str | None:
    """The Idempotency-Key header, when there is one. Raises SchemaError when it is malformed."""
    given = exchange.headers.get(b"idempotency-key")
    if given is None:
        return None
    try:
        return _KEY.validate_python(given.decode("latin-1"))
    except ValidationError:
        message = "must be 1 to 128 visible ASCII characters"
        raise SchemaError.at("Idempotency-Key", message) from None


def _agreed_key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body is not None and in_header is not None and in_body != in_header:
        raise SchemaError.at("idempotency_key", "differs from the Idempotency-Key header")
    return in_body or in_header


def _check_step(request: StepRequest) -> None:
    if request.message.role != "assistant":
        raise SchemaError.at("message.role", "must be 'assistant': a step is the agent's own message")
