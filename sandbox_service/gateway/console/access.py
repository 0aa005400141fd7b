"""Access to the console: which of its paths need a key, and the cookie in which a browser keeps one.

A browser sends no API key by itself, so a form sets it as a cookie, for the console's paths only. Scripts
cannot read it, and pages of other sites cannot have it sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes, urlsplit

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.gateway.exchange import HttpExchange


CONSOLE = "/console"
LOGIN = "/console/login"
LOGOUT = "/console/logout"
_STATIC = "/console/static/"
_COOKIE = "console_key"


def is_console(path: str) -> bool:
    """Return whether a path is one of the console's."""
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def is_open(path: str) -> bool:
    """Return whether a path of the console needs no key: the forms of the cookie, styles and script."""
    return path in (LOGIN, LOGOUT) or path.startswith(_STATIC)


def credentials(exchange: HttpExchange) -> Mapping[bytes, bytes]:
    """Return a request's headers, with the cookie's key as ``X-API-Key`` if they have no other."""
    headers = exchange.headers
    key = cookie_key(headers)
    if key is None or b"authorization" in headers or b"x-api-key" in headers:
        return headers
    return {**headers, b"x-api-key": key}


def cookie_key(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the key in the console's cookie."""
    try:
        cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return None
    found = cookies.get(_COOKIE)
    return None if found is None else unquote_to_bytes(found.value)


def set_cookie(key: bytes, *, secure: bool) -> str:
    """Return the Set-Cookie header that keeps a key until the browser ends; an empty one removes it."""
    parts = [f"{_COOKIE}={quote(key, safe='')}", f"Path={CONSOLE}", "HttpOnly", "SameSite=Strict"]
    if not key:
        parts.append("Max-Age=0")
    if secure:
        parts.append("Secure")
    return "; ".join(parts)


def is_secure(exchange: HttpExchange, scheme: str) -> bool:
    """Return whether the browser uses TLS, as the proxy in front says or the connection itself."""
    return b"https" in (exchange.headers.get(b"x-forwarded-proto"), scheme.encode())


def check_same_site(exchange: HttpExchange) -> None:
    """Reject a form that a page of another site sends. Raises ServiceError(FORBIDDEN).

    The cookie's SameSite attribute prevents that too, except for the form that sets the cookie and for a
    service without keys.
    """
    site = exchange.headers.get(b"sec-fetch-site", b"same-origin")
    origin = exchange.headers.get(b"origin")
    host = exchange.headers.get(b"host", b"").decode("latin-1")
    try:
        own = origin is None or urlsplit(origin.decode("latin-1")).netloc == host
    except ValueError:
        own = False
    if site not in (b"same-origin", b"none") or not own:
        raise ServiceError(ErrorCode.FORBIDDEN, "pages of other sites may not send forms to the console")


def local_path(wanted: str) -> str:
    """Return a path of the console to go to after signing in; the overview for any other address."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return CONSOLE
    if (
        parts.scheme
        or parts.netloc
        or not is_console(parts.path)
        or "\\" in wanted
        or not wanted.isprintable()
    ):
        return CONSOLE
    return wanted
