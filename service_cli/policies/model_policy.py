"""A policy that queries a model on an OpenAI-compatible chat-completions server.

The server gets the conversation and the current tools; its unchanged answer is the action. If the server
fails, the episode fails and has no score. If the conversation exceeds the model's context, the episode ends
and is graded in its current state, unless the model has not had a single turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_contract.images import with_image_parts
from sandbox_contract.messages import FunctionCall, Message
from sandbox_contract.tool_prompt import tool_prompt

from .policies import Actor, ContextFullError, ModelUsage, PolicyRunError, View

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject
    from sandbox_contract.messages import Tool, ToolCall

    from .chat_server import ChatAnswer, ChatServer


@dataclass(frozen=True, slots=True)
class ChatSampling:
    """Sampling parameters; None means the server's default."""

    temperature: float | None = None
    max_tokens: int | None = None
    text_tools: bool = False
    """Describe tools in the system prompt, for servers without tool calls."""


class ModelPolicy:
    """Queries one model on one server."""

    def __init__(self, model: str, server: ChatServer, sampling: ChatSampling | None = None) -> None:
        self.model = model
        self._server = server
        self._sampling = sampling or ChatSampling()

    def make_actor(self, task_id: str, seed: int) -> Actor:
        return _ModelActor(self.model, self._server, self._sampling)

    async def prepare(self) -> None:
        await self._server.probe()

    async def aclose(self) -> None:
        await self._server.aclose()


class _ModelActor:
    def __init__(self, model: str, server: ChatServer, sampling: ChatSampling) -> None:
        self._model = model
        self._server = server
        self._sampling = sampling
        self._named = 0
        self.usage = ModelUsage()

    async def act(self, view: View) -> Message | None:
        try:
            answer = await self._complete(self._body(view))
        except ContextFullError as error:
            if not self.usage.calls:
                # The grade would be of the server's settings: the model has done nothing.
                detail = f"the model server refused the first request of the episode: {error}"
                raise PolicyRunError(detail, "model_refused") from error
            self.usage.ended = "context_length"
            return None
        self.usage.calls += 1
        self.usage.tokens_in += answer.tokens_in
        self.usage.tokens_out += answer.tokens_out
        self.usage.cut += answer.cut
        return self._action(answer.message)

    async def _complete(self, body: JsonObject) -> ChatAnswer:
        """Return a completion. Raises ContextFullError if the conversation itself is too long."""
        try:
            return await self._server.complete(body)
        except ContextFullError:
            if "max_tokens" not in body:
                raise
        # Servers count max_tokens towards the context. Without it, the answer gets the room that is left.
        return await self._server.complete({key: body[key] for key in body if key != "max_tokens"})

    def _body(self, view: View) -> JsonObject:
        messages: list[JsonValue] = [*with_image_parts(map(_sent, view.messages))]
        body: JsonObject = {"model": self._model, "messages": messages}
        if view.tools and self._sampling.text_tools:
            body["messages"] = _as_text(messages, view.tools)
        elif view.tools:
            body["tools"] = _dumped(view.tools)
        if self._sampling.temperature is not None:
            body["temperature"] = self._sampling.temperature
        if self._sampling.max_tokens is not None:
            body["max_tokens"] = self._sampling.max_tokens
        return body

    def _action(self, message: Message) -> Message:
        """Return the answer as the assistant's message; calls without an id get one."""
        calls = tuple(self._with_id(call) for call in message.tool_calls or ())
        content = message.content if calls or message.content is not None else ""
        return message.model_copy(
            update={"role": "assistant", "content": content, "tool_calls": calls or None}
        )

    def _with_id(self, call: ToolCall) -> ToolCall:
        self._named += 1
        return call if call.id else call.model_copy(update={"id": f"call_{self._named}"})


def _sent(message: Message) -> JsonObject:
    """Return a message as servers accept it: arguments are strings, and an assistant has a content."""
    if message.tool_calls:
        calls = tuple(
            call.model_copy(update={"function": _with_text(call.function)}) for call in message.tool_calls
        )
        message = message.model_copy(update={"tool_calls": calls})
    # Servers return reasoning but do not expect it in requests; some reject it.
    unsent = {"reasoning_content", "reasoning"}
    sent: dict[str, JsonValue] = message.model_dump(mode="json", exclude_none=True, exclude=unsent)
    return {"content": None, **sent} if message.tool_calls else {"content": "", **sent}


def _with_text(function: FunctionCall) -> FunctionCall:
    if isinstance(function.arguments, str):
        return function
    return FunctionCall(name=function.name, arguments=json.dumps(function.arguments, ensure_ascii=False))


def _as_text(messages: list[JsonValue], tools: Iterable[Tool]) -> list[JsonValue]:
    """Return the messages with the tools at the end of the system prompt."""
    described = tool_prompt(_dumped(tools))
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") == "system":
        return [{**first, "content": f"{first.get('content')}\n\n{described}"}, *messages[1:]]
    return [{"role": "system", "content": described}, *messages]


def _dumped(tools: Iterable[Tool]) -> list[JsonValue]:
    return [tool.model_dump(mode="json") for tool in tools]
