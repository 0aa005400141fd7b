"""A chat server that calls the tools it was told to, streamed or not, and then says that it is done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Turn: TypeAlias = "tuple[str, dict[str, str]] | str"
"""A tool with its arguments, or a text."""

_HEAD = {"id": "c", "created": 0, "model": "model"}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def tool_calling_server(turns: Sequence[Turn]) -> Starlette:
    """An application whose n-th answer to a conversation is the n-th turn, and behind the last one a text."""

    async def complete(request: Request) -> Response:
        body = await request.json()
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        message, finish = _answer(turns, turn)
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return JSONResponse({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE})
        return StreamingResponse(_events(message, finish), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def _answer(turns: Sequence[Turn], turn: int) -> tuple[dict[str, object], str]:
    said = turns[turn] if turn < len(turns) else "Done."
    if isinstance(said, str):
        return {"role": "assistant", "content": said}, "stop"
    name, arguments = said
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": f"c{turn}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


async def _events(message: dict[str, object], finish: str) -> AsyncIterator[str]:
    first = [{"index": 0, "delta": message, "finish_reason": None}]
    last = [{"index": 0, "delta": {}, "finish_reason": finish}]
    for choices in (first, last, []):
        chunk = {**_HEAD, "object": "chat.completion.chunk", "choices": choices}
        yield f"data: {json.dumps(chunk | ({} if choices else {'usage': _USAGE}))}\n\n"
    yield "data: [DONE]\n\n"
