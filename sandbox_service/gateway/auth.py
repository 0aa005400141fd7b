"""Authenticate requests by API key, and check that a service without keys is reachable from loopback only.

A read-only key may send ``GET`` and ``HEAD`` only, whatever the route. Only the SHA-256 of a key is
configured. Without keys every caller is the tenant ``local``; such a service listens on loopback, where it
also rejects requests that web pages of other sites send.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ApiKeyConfig, Rights
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.config import ServerConfig

    from .exchange import HttpExchange


LOCAL_TENANT = "local"
_DIGEST = re.compile("[0-9a-f]{64}")
_UNKNOWN = "0" * 64
_READING = frozenset({"GET", "HEAD"})
_LOCAL = ApiKeyConfig(tenant=LOCAL_TENANT)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class ExposureError(ValueError):
    """The configuration would make the service reachable for more callers than intended."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_exposure(config: ServerConfig) -> None:
    """Raise ExposureError if the configuration serves other machines without API keys."""
    for digest in config.api_keys:
        if not _DIGEST.fullmatch(digest.lower()):
            raise ExposureError(
                "server.api_keys maps the SHA-256 of each key, 64 hexadecimal digits, to a tenant; "
                "compute it with: printf %s KEY | sha256sum"
            )
    if not (config.api_keys or config.insecure or is_loopback(config.host)):
        raise ExposureError(
            f"{config.host} can be reached from other machines and no API key is configured: "
            "set server.api_keys, listen on 127.0.0.1, or pass --insecure"
        )


def check_rights(exchange: HttpExchange, *, changes: bool = False) -> None:
    """Raise ServiceError(FORBIDDEN) if the caller's key may not send the request.

    ``changes`` says that the route changes something although its method does not say so.
    """
    if exchange.rights is Rights.WRITE or (exchange.method in _READING and not changes):
        return
    detail = (
        f'{exchange.method} {exchange.path[:200]} needs a key with the right "{Rights.WRITE}", and this key '
        f'has "{exchange.rights}" only: use another key, or change its rights in server.api_keys'
    )
    raise ServiceError(ErrorCode.FORBIDDEN, detail)


class Authenticator:
    """Authenticates requests by their headers; ``keys`` are the API keys by their SHA-256 in lower case."""

    def __init__(
        self, keys: Mapping[str, ApiKeyConfig], *, insecure: bool = False, host_names: Iterable[str] = ()
    ) -> None:
        self._keys = keys
        self._insecure = insecure
        self._host_names = frozenset(name.lower() for name in host_names)

    def authenticate(self, headers: Mapping[bytes, bytes]) -> ApiKeyConfig:
        """Return a caller's tenant and rights. Raises ServiceError(UNAUTHENTICATED or FORBIDDEN)."""
        if not self._keys:
            if not self._insecure:
                self._reject_foreign_page(headers)
            return _LOCAL
        key = _key_of(headers)
        if key is None:
            raise ServiceError(ErrorCode.UNAUTHENTICATED, "send Authorization: Bearer KEY, or X-API-Key: KEY")
        # A caller cannot choose a digest, so the time of the lookup reveals nothing about configured keys.
        # An unknown key is compared too, so that it takes as long as a known one.
        digest = hashlib.sha256(key).hexdigest()
        known = digest if digest in self._keys else _UNKNOWN
        if not hmac.compare_digest(digest, known):
            raise ServiceError(ErrorCode.UNAUTHENTICATED, "unknown API key")
        return self._keys[digest]

    def _reject_foreign_page(self, headers: Mapping[bytes, bytes]) -> None:
        """Reject a request that a web page of another site sends.

        Browsers let any page send requests to loopback. They name the page's site in ``Origin``, except when
        it reads from its own site. A site whose name resolves to loopback is named in ``Host``.
        """
        host = headers.get(b"host")
        if host is not None and not self._is_own(_without_port(host.decode("latin-1"))):
            detail = (
                f"the host {host.decode('latin-1')[:100]!r} is not allowed for a service without API keys: "
                "use a loopback address, or add the host to server.host_names"
            )
            raise ServiceError(ErrorCode.FORBIDDEN, detail)
        origin = headers.get(b"origin")
        if origin is None:
            return
        try:
            page = urlsplit(origin.decode("ascii")).hostname or ""
        except ValueError:
            page = ""
        if not self._is_own(page):
            raise ServiceError(
                ErrorCode.FORBIDDEN, "pages of other sites may not call a service without API keys"
            )

    def _is_own(self, name: str) -> bool:
        return name in _LOOPBACK or name.lower() in self._host_names or is_loopback(name)


def _without_port(host: str) -> str:
    """Return the name in a Host header, where an IPv6 address is in brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _key_of(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the API key: a bearer token, X-API-Key, or the password of a URL (``http://key:KEY@host``)."""
    authorization = headers.get(b"authorization")
    if authorization is None:
        return headers.get(b"x-api-key")
    scheme, _, value = authorization.partition(b" ")
    value = value.strip()
    if scheme.lower() == b"bearer":
        return value
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return None
    return None
