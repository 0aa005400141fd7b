"""Request bodies: read within a limit, checked to be strict JSON of bounded depth, parsed into a model.

What passes here is finite, shallow and valid: the rest of the service and the boxes see only what a model
of the contract has accepted.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .refusals import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive

__all__ = ["ClientGone", "parse", "read_body"]

Model = TypeVar("Model", bound=BaseModel)

_BRACKETS = b"{[]}"
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_CHUNK = 65536
_ALWAYS_FINITE = frozenset({str, int, bool, type(None)})
_DELTA = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}


class ClientGone(Exception):  # noqa: N818 - nothing failed; nobody is left to answer
    """The client went away before its request was complete."""


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """The whole body. Raises ServiceError(BODY_TOO_LARGE) before a byte over the limit is kept."""
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and (len(announced) > 18 or int(announced) > limit):
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parse(model: type[Model], body: bytes, max_depth: int) -> Model:
    """The body as ``model``. Raises ServiceError(MALFORMED_JSON, JSON_TOO_DEEP or INVALID_REQUEST)."""
    _check_text(body, max_depth)
    try:
        parsed = model.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        if errors[0]["type"] == "json_invalid":
            raise ServiceError(ErrorCode.MALFORMED_JSON, errors[0]["msg"]) from None
        raise SchemaError.of(errors) from None
    _check_numbers(parsed)
    return parsed


def _check_text(body: bytes, max_depth: int) -> None:
    """Depth, NaN and Infinity; counts that prove a body harmless spare it the exact scan."""
    deep = body.count(b"{") + body.count(b"[") > max_depth
    odd = b"NaN" in body or b"Infinity" in body
    if not (deep or odd):
        return
    structure = _outside_strings(body)
    if deep and _deeper_than(structure, max_depth):
        raise ServiceError(ErrorCode.JSON_TOO_DEEP, f"JSON is nested deeper than {max_depth} levels")
    if odd and (b"NaN" in structure or b"Infinity" in structure):
        raise ServiceError(ErrorCode.MALFORMED_JSON, "NaN and Infinity are not JSON")


def _outside_strings(body: bytes) -> bytes:
    """What is left when strings are taken out; linear in C, exact for whatever the parser will accept."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(body.split(b'"')[::2])


def _deeper_than(structure: bytes, max_depth: int) -> bool:
    """Stops at the first chunk that goes too deep, so that hostile bodies are the cheapest."""
    brackets = structure.translate(None, _NOT_BRACKETS)
    depth = 0
    for start in range(0, len(brackets), _CHUNK):
        deltas = map(_DELTA.__getitem__, brackets[start : start + _CHUNK])
        depths = list(accumulate(deltas, initial=depth))
        if max(depths) > max_depth:
            return True
        depth = depths[-1]
    return False


def _check_numbers(parsed: BaseModel) -> None:
    """Refuse numbers that overflow (1e999) where the schema leaves values open."""
    if not _finite(parsed):
        raise ServiceError(ErrorCode.MALFORMED_JSON, "a number is too large")


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    inside: Iterable[object] = ()
    if isinstance(value, BaseModel):
        inside = value.__dict__.values()
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, (list, tuple)):
        inside = value
    # No call for what cannot be infinite: this runs for every field of every request.
    return all(_finite(each) for each in inside if type(each) not in _ALWAYS_FINITE)


def _too_large(limit: int) -> ServiceError:
    return ServiceError(ErrorCode.BODY_TOO_LARGE, f"a request body may have {limit} bytes")
