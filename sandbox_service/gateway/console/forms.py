"""Read the fields of a form that a browser sends."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request


_MOST_BYTES = 8192
_MOST_FIELDS = 8


async def form_fields(request: Request) -> Mapping[str, bytes]:
    """Return the fields of a form, of equal ones the first, as any bytes that the browser sent.

    Raises ServiceError: BODY_TOO_LARGE, INVALID_REQUEST.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise ServiceError(ErrorCode.BODY_TOO_LARGE, f"the form is larger than {_MOST_BYTES} bytes")
    try:
        # Latin-1 has a character for each byte. Of bytes, parse_qsl accepts those of ASCII alone.
        fields = parse_qsl(body.decode("latin-1"), max_num_fields=_MOST_FIELDS, encoding="latin-1")
    except ValueError:
        detail = f"the form has more than {_MOST_FIELDS} fields"
        raise ServiceError(ErrorCode.INVALID_REQUEST, detail) from None
    return {name: value.encode("latin-1") for name, value in reversed(fields)}
