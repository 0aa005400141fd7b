"""An HTTP transport that answers from a function and keeps what it was sent, for both clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from sandbox_contract.problems import ErrorCode, Problem

Answer = httpx.Response | Exception


class ScriptedTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Answers with what ``script`` returns; an exception in place of a response is raised."""

    def __init__(
        self,
        script: Callable[[httpx.Request], Answer],
        *,
        pause: Callable[[httpx.Request], Awaitable[object]] | None = None,
    ) -> None:
        self.requests: list[httpx.Request] = []
        self.closed = False
        self.in_flight = 0
        self.most_in_flight = 0
        self._script = script
        self._pause = pause

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await (self._pause(request) if self._pause else asyncio.sleep(0))
            return self.handle_request(request)
        finally:
            self.in_flight -= 1

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self._script(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True


def in_turn(*answers: Answer) -> Callable[[httpx.Request], Answer]:
    """Each answer once, the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def problem(code: ErrorCode, **fields: object) -> httpx.Response:
    """The service's answer for an error code."""
    body = Problem.of(code, "told by the test", **fields)  # type: ignore[arg-type]
    return httpx.Response(
        body.status, content=body.model_dump_json(), headers={"content-type": "application/problem+json"}
    )
