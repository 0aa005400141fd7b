"""Anthropic Messages, which Claude Code and the Anthropic SDK speak.

Source: the Anthropic API reference, https://docs.anthropic.com/en/api/messages. Left out: images, documents,
tools that the server runs, citations. ``cache_control`` and signatures of thoughts are accepted and ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from sandbox_contract.base import JsonObject
from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from trainer.chat.tool_formats.base import decode_json
from trainer.model_gateway.calls import CallError, ModelCall, ModelReply

from .chat import arguments_text
from .fields import asked_of, fault_in, parsed, refused, stops_of, text_in

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
KEEP_ALIVE = b'event: ping\ndata: {"type": "ping"}\n\n'
"""A sign of life in a stream, which clients ignore."""

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[JsonObject] = Field(min_length=1)
    system: str | list[JsonObject] | None = None
    tools: list[JsonObject] | None = None
    tool_choice: JsonObject | None = None
    output_config: JsonObject | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    stop_sequences: tuple[str, ...] | None = None
    stream: bool | None = None


def read(body: bytes) -> ModelCall:
    """Return the call of a request body. Raises CallError(400)."""
    request = parsed(_Request, body)
    asked = asked_of(request)
    tool_choice = request.tool_choice or {}
    choice = tool_choice.get("type", "auto")
    if choice not in ("auto", "none"):
        raise refused("tool_choice")
    if (request.output_config or {}).get("format") is not None:
        raise refused("output_config.format")
    if request.messages[-1].get("role") == "assistant":
        detail = "the last message is the assistant's: an answer that continues it is not supported"
        raise CallError(400, "unsupported_parameter", detail, f"messages.{len(request.messages) - 1}")
    messages: list[Message] = []
    with fault_in("system"):
        system = _text(request.system)
    if system:
        messages.append(Message(role="system", content=system))
    for number, message in enumerate(request.messages):
        with fault_in(f"messages.{number}"):
            messages += _messages(message)
    return ModelCall(
        model=request.model,
        messages=tuple(messages),
        tools=() if choice == "none" else _tools(request.tools or []),
        max_tokens=request.max_tokens,
        stop=stops_of(request.stop_sequences),
        one_tool_call=tool_choice.get("disable_parallel_tool_use") is True,
        stream=bool(request.stream),
        asked=asked,
        dialect="messages",
    )


def answer(call: ModelCall, reply: ModelReply) -> JsonObject:
    """Return the document that answers a call."""
    ended: JsonObject = {"stop_reason": _stop(reply), "stop_sequence": reply.stop}
    return {**_head(call, reply), "content": list(_blocks(reply)), **ended}


def events(call: ModelCall, reply: ModelReply) -> Iterator[bytes]:
    """Yield the server-sent events that answer a call that asked for a stream."""
    yield _event("message_start", {"message": {**_head(call, reply), "content": [], "stop_reason": None}})
    for index, block in enumerate(_blocks(reply)):
        begun, deltas = _in_deltas(block)
        yield _event("content_block_start", {"index": index, "content_block": begun})
        for delta in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    ended: JsonObject = {"stop_reason": _stop(reply), "stop_sequence": reply.stop}
    yield _event("message_delta", {"delta": ended, "usage": {"output_tokens": reply.usage.sampled}})
    yield _event("message_stop", {})


def counted(tokens: int) -> JsonObject:
    """Return the document that answers a request to count tokens."""
    return {"input_tokens": tokens}


def error(failed: CallError) -> JsonObject:
    """Return the document of an error."""
    kind = _KINDS.get(failed.status, "invalid_request_error" if failed.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": failed.detail}}


def error_event(failed: CallError) -> bytes:
    """Return the event of an error in a stream that has begun."""
    return _event("error", error(failed))


def models(name: str, context_tokens: int) -> JsonObject:
    """Return the document that lists the only model."""
    data: list[JsonValue] = [model(name, context_tokens)]
    return {"data": data, "has_more": False, "first_id": name, "last_id": name}


def model(name: str, context_tokens: int) -> JsonObject:
    """Return the document of the model."""
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
        "max_input_tokens": context_tokens,
    }


def _head(call: ModelCall, reply: ModelReply) -> JsonObject:
    used, cached = reply.usage, reply.usage.cached
    # Clients add up the fields: tokens that were read from a cache are not among the input tokens.
    usage: JsonObject = {"input_tokens": used.prompt - (cached or 0), "output_tokens": used.sampled}
    if cached is not None:
        usage |= {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
    return {
        "id": f"msg_{reply.call_id}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "stop_sequence": None,
        "usage": usage,
    }


def _blocks(reply: ModelReply) -> Iterator[JsonObject]:
    message = reply.message
    if message.reasoning_content:
        yield {"type": "thinking", "thinking": message.reasoning_content, "signature": ""}
    if message.content or not message.tool_calls:
        yield {"type": "text", "text": message.content or ""}
    for call in message.tool_calls or ():
        yield {"type": "tool_use", "id": call.id, "name": call.function.name, "input": _input(call)}


def _input(call: ToolCall) -> JsonObject:
    """Return a call's arguments; an empty object where they are none, for which the dialect has no place."""
    text = arguments_text(call)
    decoded = decode_json(text)
    if decoded is None:
        return {}
    arguments, end = decoded
    return arguments if isinstance(arguments, dict) and not text[end:].strip() else {}


def _in_deltas(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return a block as a stream begins it, and the deltas that complete it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        return {**block, "thinking": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    arguments = json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": arguments}]


def _stop(reply: ModelReply) -> str:
    if reply.cut:
        return "max_tokens"
    if reply.stop is not None and not reply.message.tool_calls:
        return "stop_sequence"
    return "tool_use" if reply.message.tool_calls else "end_turn"


def _event(name: str, document: JsonObject) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **document})}\n\n".encode()


def _tools(tools: Sequence[JsonObject]) -> tuple[Tool, ...]:
    found = []
    for number, tool in enumerate(tools):
        kind = tool.get("type") or "custom"
        if kind != "custom":
            detail = f"tools.{number}: only tools of the agent are supported, not {kind!r}"
            raise CallError(400, "unsupported_parameter", detail, "tools")
        with fault_in(f"tools.{number}"):
            fields = {
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool["input_schema"],
            }
            found.append(Tool(function=FunctionSchema.model_validate(fields)))
    return tuple(found)


def _messages(message: JsonObject) -> list[Message]:
    """Return a message as chat messages: each tool result is one of its own, before the text."""
    role, content = message["role"], message["content"]
    if role not in ("user", "assistant"):
        raise ValueError(f"role {role!r} is not supported")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
    if role == "user":
        results = [
            Message(role="tool", tool_call_id=str(block["tool_use_id"]), content=_text(block.get("content")))
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        rest = [block for block in blocks if block.get("type") != "tool_result"]
        return [*results, *([Message(role="user", content=_text(rest))] if rest else [])]
    thoughts = "\n".join(str(block["thinking"]) for block in blocks if block.get("type") == "thinking")
    texts = [
        block for block in blocks if block.get("type") not in ("thinking", "redacted_thinking", "tool_use")
    ]
    calls = tuple(
        ToolCall(
            id=str(block["id"]),
            function=FunctionCall.model_validate({"name": block["name"], "arguments": block["input"]}),
        )
        for block in blocks
        if block.get("type") == "tool_use"
    )
    return [
        Message(
            role="assistant",
            content=_text(texts),
            reasoning_content=thoughts or None,
            tool_calls=calls or None,
        )
    ]


def _objects(content: object) -> list[JsonObject]:
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ValueError("content must be a text or a list of blocks")
    return content


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for block in _objects(content):
        if block.get("type") != "text":
            raise ValueError(f"blocks of type {block.get('type')!r} are not supported")
        texts.append(text_in(block))
    return "\n".join(texts)
