"""OpenAI chat completions.

Source: the OpenAI API reference, https://platform.openai.com/docs/api-reference/chat. Left out: images and
audio, several choices, log-probabilities in the answer, stored completions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sandbox_contract.base import JsonObject
from sandbox_contract.messages import Message, Tool, ToolCall
from trainer.model_gateway.calls import CallError, ModelCall, ModelReply, Usage

from .fields import asked_of, parsed, present, refused, stops_of

PATH = "/v1/chat/completions"
KEEP_ALIVE = b": keep-alive\n\n"
"""A sign of life in a stream, which clients ignore."""


def _as_message(message: object) -> object:
    """Return a message with the role that templates have for the developer's, and calls without nulls."""
    if not isinstance(message, dict):
        return message
    role = "system" if message.get("role") == "developer" else message.get("role")
    calls = message.get("tool_calls")
    calls = [present(call) for call in calls] if isinstance(calls, list) else calls
    return {**message, "role": role, "tool_calls": calls}


def _as_tool(tool: object) -> object:
    """Return a tool without nulls, such as the description of a tool of MCP that has none."""
    tool = present(tool)
    return {**tool, "function": present(tool.get("function"))} if isinstance(tool, dict) else tool


class _StreamOptions(BaseModel):
    include_usage: bool | None = None


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str
    messages: tuple[Annotated[Message, BeforeValidator(_as_message)], ...] = Field(min_length=1)
    tools: tuple[Annotated[Tool, BeforeValidator(_as_tool)], ...] | None = None
    tool_choice: str | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    response_format: JsonObject | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | tuple[str, ...] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


def read(body: bytes) -> ModelCall:
    """Return the call of a request body. Raises CallError(400)."""
    request = parsed(_Request, body)
    asked = asked_of(request)
    if request.response_format not in (None, {"type": "text"}):
        raise refused("response_format")
    if request.tool_choice not in (None, "auto", "none"):
        raise refused("tool_choice")
    for number, message in enumerate(request.messages):
        if message.images:
            where = f"messages.{number}.images"
            raise CallError(400, "unsupported_parameter", f"{where}: the model reads text alone", where)
    return ModelCall(
        model=request.model,
        messages=request.messages,
        tools=() if request.tool_choice == "none" else request.tools or (),
        max_tokens=request.max_completion_tokens or request.max_tokens,
        stop=stops_of(request.stop),
        one_tool_call=request.parallel_tool_calls is False,
        stream=bool(request.stream),
        usage_in_stream=request.stream_options is not None and bool(request.stream_options.include_usage),
        asked=asked,
        dialect="chat",
    )


def answer(call: ModelCall, reply: ModelReply) -> JsonObject:
    """Return the document that answers a call."""
    choice: JsonObject = {
        "index": 0,
        "message": {"refusal": None, **_message(reply)},
        "logprobs": None,
        "finish_reason": _finish(reply),
    }
    return {**_head(call, reply, "chat.completion"), "choices": [choice], "usage": _usage(reply.usage)}


def events(call: ModelCall, reply: ModelReply) -> Iterator[bytes]:
    """Yield the server-sent events that answer a call that asked for a stream.

    The answer is complete before the first event: a call that fails keeps its HTTP status.
    """
    head = _head(call, reply, "chat.completion.chunk")
    delta = _message(reply)
    if reply.message.tool_calls:
        calls = [{"index": number, **each} for number, each in enumerate(_calls(reply.message.tool_calls))]
        delta = {**delta, "tool_calls": calls}  # type: ignore[dict-item]
    yield _event({**head, "choices": [_choice(delta, None)]})
    yield _event({**head, "choices": [_choice({}, _finish(reply))]})
    if call.usage_in_stream:
        yield _event({**head, "choices": [], "usage": _usage(reply.usage)})
    yield b"data: [DONE]\n\n"


def error(failed: CallError) -> JsonObject:
    """Return the document of an error."""
    kind = "invalid_request_error" if failed.status < 500 else "server_error"
    detail: JsonObject = {
        "message": failed.detail,
        "type": kind,
        "param": failed.parameter,
        "code": failed.code,
    }
    return {"error": detail}


def error_event(failed: CallError) -> bytes:
    """Return the event of an error in a stream that has begun."""
    return _event(error(failed))


def models(name: str, context_tokens: int) -> JsonObject:
    """Return the document that lists the only model."""
    return {"object": "list", "data": [model(name, context_tokens)]}


def model(name: str, context_tokens: int) -> JsonObject:
    """Return the document of the model, with its context length as vLLM names it."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "sandbox-trainer",
        "max_model_len": context_tokens,
    }


def _head(call: ModelCall, reply: ModelReply, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{reply.call_id}", "object": kind, "created": reply.created, "model": call.model}


def _message(reply: ModelReply) -> JsonObject:
    message = reply.message
    shown: JsonObject = {"role": "assistant", "content": message.content}
    if message.reasoning_content:
        shown["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        shown["content"] = message.content or None
        shown["tool_calls"] = _calls(message.tool_calls)  # type: ignore[assignment]
    return shown


def _calls(calls: tuple[ToolCall, ...]) -> list[JsonObject]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": arguments_text(call)},
        }
        for call in calls
    ]


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a tool call as JSON text."""
    arguments = call.function.arguments
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _finish(reply: ModelReply) -> str:
    if reply.cut:
        return "length"
    return "tool_calls" if reply.message.tool_calls else "stop"


def _usage(usage: Usage) -> JsonObject:
    counted: JsonObject = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.sampled,
        "total_tokens": usage.prompt + usage.sampled,
    }
    if usage.cached is not None:
        counted["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return counted


def _choice(delta: JsonObject, finish: str | None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _event(document: JsonObject) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
