"""Methods of a path: HEAD wherever GET is, and the Allow header of a refused method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.routing import Match

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import Scope


def with_head(methods: Iterable[str]) -> set[str]:
    """Return the methods, and HEAD where GET is among them."""
    known = set(methods)
    return known | {"HEAD"} if "GET" in known else known


def allow_header(methods: Iterable[str]) -> str:
    """Return the value of an Allow header."""
    return ", ".join(sorted(with_head(methods)))


def methods_at(routes: Iterable[BaseRoute], scope: Scope) -> set[str]:
    """Return the methods of all routes that match the path of a request, whatever its own method is."""
    found: set[str] = set()
    for route in routes:
        if route.matches(scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found
