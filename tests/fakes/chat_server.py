"""A small OpenAI-compatible server that answers what a script says, for tests over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["FakeChatServer", "Reply", "calls", "says"]

Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One answer."""

    body: Any
    status: int = 200
    delay_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


def says(content: str | None, finish: str = "stop", **message: Any) -> Reply:
    """A completion of plain text, ten tokens in and two out."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": finish,
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return Reply({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})


def calls(name: str, call_id: str | None = "c1", **arguments: Any) -> Reply:
    """A completion with one tool call, with fields that only some servers send."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "index": 0, "function": function}
    return says(None, "tool_calls", tool_calls=[call], reasoning_content="hm", refusal=None)


class FakeChatServer:
    """Answers with what ``answer`` gives for a request's body; keeps the bodies."""

    def __init__(self, answer: Callable[[Body], Reply] | list[Reply], key: str | None = None) -> None:
        script: Iterator[Reply] = iter(answer) if isinstance(answer, list) else iter(())
        self._answer = (lambda _: next(script)) if isinstance(answer, list) else answer
        self._key = key
        self.bodies: list[Body] = []
        self.paths: list[str] = []
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", self._models),
            ]
        )

    async def _models(self, request: Request) -> Response:
        if not self._known(request):
            return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def _complete(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        self.paths.append(request.url.path)
        if not self._known(request):
            return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
        reply = self._answer(self.bodies[-1])
        await _pause(request, reply.delay_s)
        if isinstance(reply.body, str):
            return PlainTextResponse(reply.body, reply.status, reply.headers)
        return JSONResponse(reply.body, reply.status, reply.headers)

    def _known(self, request: Request) -> bool:
        return self._key is None or request.headers.get("authorization") == f"Bearer {self._key}"


async def _pause(request: Request, seconds: float) -> None:
    """Wait, but not for a client that has gone."""
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until and not await request.is_disconnected():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
