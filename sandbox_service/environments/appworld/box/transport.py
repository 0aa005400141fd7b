"""Requests to AppWorld's apps inside this process, without a thread and without an event loop.

The apps' own test client speaks with them through a portal to an event loop in a thread, and the apps hand
their endpoints to more threads. A process with threads can neither be forked nor be a warm copy of
anything. Nothing in the apps really waits, so their coroutines run to the end when they are driven by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from starlette import concurrency
from starlette.testclient import TestClient

if TYPE_CHECKING:
    import re


Scope = dict[str, Any]


def run_endpoints_in_place() -> None:
    """Have the apps' libraries call functions where they are, instead of in threads."""
    for threaded, name in (
        (concurrency.run_in_threadpool, "run_in_threadpool"),
        (to_thread.run_sync, "run_sync"),
    ):
        for module in list(sys.modules.values()):
            if getattr(module, name, None) is threaded:
                setattr(module, name, _run_in_place)


async def _run_in_place(
    function: Callable[..., Any],
    *args: Any,  # noqa: ANN401
    abandon_on_cancel: bool = False,
    cancellable: bool | None = None,
    limiter: object = None,
    **kwargs: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    return function(*args, **kwargs)


class _Event:
    """As much of an event as a request needs that is answered before anybody waits."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    async def wait(self) -> None:
        if not self._set:
            raise RuntimeError("an app waits for the end of its own answer")


class _Portal:
    """Calls into the apps, in this thread."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401
        if function is anyio.Event:
            return _Event()
        coroutine: Coroutine[Any, Any, Any] = function(*args)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        coroutine.close()
        raise RuntimeError("an app waits for something outside itself")


class Guard:
    """Lets a request reach the routes of one app only.

    Values of the caller become parts of a path, and a client resolves dots in paths: without this, an id
    such as ``../../dbs`` would reach the routes by which AppWorld is administered.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self.routes: list[re.Pattern[str]] = []
        """Paths that may be reached now."""
        self.nowhere = "/"
        """A path without a route, for all others."""

    async def __call__(self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        path = str(scope["path"])
        if not any(route.fullmatch(path) for route in self.routes):
            scope = {**scope, "path": self.nowhere, "raw_path": self.nowhere.encode()}
        await self._app(scope, receive, send)


class AppClient(TestClient):
    """AppWorld's client, with a portal that leads nowhere else."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        super().__init__(app)
        self.portal = _Portal()  # type: ignore[assignment]
