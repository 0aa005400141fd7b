"""Who calls: API keys, the tenants they belong to, and where the service may listen without any.

Keys are known by their SHA-256 only. Without configured keys everyone is the tenant ``local``, which is
why such a service belongs on loopback; there, requests that a web page of another site makes are refused.
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
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.config import ServerConfig


LOCAL_TENANT = "local"
_DIGEST = re.compile("[0-9a-f]{64}")
_NOBODY = "0" * 64
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class ExposureError(ValueError):
    """The configuration would open the service to others than intended."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_exposure(config: ServerConfig) -> None:
    """Refuse a configuration that serves other machines without API keys. Raises ExposureError."""
    for digest in config.api_keys:
        if not _DIGEST.fullmatch(digest.lower()):
            raise ExposureError(
                "server.api_keys maps the SHA-256 of each key, 64 hexadecimal digits, to a tenant; "
                "make one with: printf %s KEY | sha256sum"
            )
    if not (config.api_keys or config.insecure or is_loopback(config.host)):
        raise ExposureError(
            f"{config.host} can be reached from other machines and no API key is configured: "
            "set server.api_keys, listen on 127.0.0.1, or say --insecure"
        )


class KeyRing:
    """Tells the tenant of a request by its headers."""

    def __init__(
        self, api_keys: Mapping[str, str], *, insecure: bool = False, host_names: Iterable[str] = ()
    ) -> None:
        self._tenants = {digest.lower(): tenant for digest, tenant in api_keys.items()}
        self._insecure = insecure
        self._host_names = frozenset(name.lower() for name in host_names)

    def tenant_of(self, headers: Mapping[bytes, bytes]) -> str:
        """The tenant. Raises ServiceError(UNAUTHENTICATED), or FORBIDDEN for foreign web pages."""
        if not self._tenants:
            if not self._insecure:
                self._refuse_foreign_page(headers)
            return LOCAL_TENANT
        key = _key_of(headers)
        if key is None:
            raise ServiceError(ErrorCode.UNAUTHENTICATED, "send Authorization: Bearer KEY, or X-API-Key: KEY")
        # The caller cannot steer a digest, so looking it up tells nothing about the keys that there are;
        # the comparison takes the same time for a known and an unknown one.
        digest = hashlib.sha256(key).hexdigest()
        known = digest if digest in self._tenants else _NOBODY
        if not hmac.compare_digest(digest, known):
            raise ServiceError(ErrorCode.UNAUTHENTICATED, "the API key is not known")
        return self._tenants[digest]

    def _refuse_foreign_page(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what a page of another site asks for.

        Browsers let any page send requests to loopback. They name the page in ``Origin``, except when it
        reads from its own site; a site that has its name resolved to loopback is named in ``Host``.
        """
        host = headers.get(b"host")
        if host is not None and not self._is_own(_without_port(host.decode("latin-1"))):
            detail = (
                f"a service without API keys is not called {host.decode('latin-1')[:100]!r}: "
                "use a loopback address, or name the host in server.host_names"
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
            raise ServiceError(ErrorCode.FORBIDDEN, "pages of other sites may not call this service")

    def _is_own(self, name: str) -> bool:
        return name in _LOOPBACK or name.lower() in self._host_names or is_loopback(name)


def _without_port(host: str) -> str:
    """The name in a Host header; an IPv6 address stands in brackets there."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _key_of(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The key: a bearer token, an X-API-Key, or the password of a URL (``http://key:KEY@host``)."""
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
