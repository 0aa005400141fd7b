"""Make the prompt tokens of a call: splice behind what was sampled before, or render the whole conversation.

A spliced prompt keeps the tokens of an earlier call, prompt and sampled, and tokenises the new messages only.
An episode then is one training sequence, and the model goes on from what it wrote, thoughts included. A
rendered prompt is what the chat template makes of the messages: thoughts may be dropped and tool calls
written anew, so that the earlier tokens are no prefix of it, and each such call is a sequence of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING

from trainer.chat.thoughts import CLOSE, OPEN, without_thoughts

from .forest import Break

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall
    from trainer.chat import ChatTokenizer

_SYSTEM = "system"


class PromptPolicy(StrEnum):
    """How the prompts of a session are made."""

    SPLICE = "splice"
    """Behind an earlier call where the messages allow it, else rendered."""
    RENDER = "render"
    """Always by the chat template."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens of a call's prompt."""

    token_ids: tuple[int, ...]
    spliced: bool
    because: Break
    """Why it does not extend an earlier call; ``EXTENDS`` where its messages do."""
    known: int = 0
    """Messages at its beginning that an earlier call had, that call's answer included."""


class Prompts:
    """The prompts of one session, in which an agent may repeat, shorten or rewrite its history."""

    def __init__(self, chat: ChatTokenizer, policy: PromptPolicy = PromptPolicy.SPLICE) -> None:
        self._chat = chat
        self._policy = policy
        self._answered: dict[bytes, tuple[int, ...]] = {}
        """Tokens of answered calls, prompt and sampled, by the digest of their messages, answer included."""
        self._openings: dict[bytes, int] = {}
        """The most messages that were sent under one list of tools and one system prompt."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Prompt:
        """Return the prompt of a call. Tokenising takes time in proportion to the new messages if spliced,
        and to all of them if rendered.

        Raises ConfigError where the chat template does not take the messages.
        """
        digests = _digests(messages, tools)
        known = next((n for n in range(len(digests), 0, -1) if digests[n - 1] in self._answered), 0)
        tail = messages[known:]
        extends = known > 0 and bool(tail) and all(message.role != "assistant" for message in tail)
        if extends and self._policy is PromptPolicy.SPLICE:
            before = self._answered[digests[known - 1]]
            return Prompt((*before, *self._chat.continuation(tail, before[-1])), True, Break.EXTENDS, known)
        because = Break.RENDERED if extends else self._break(messages, tools)
        rendered = self._chat.opening([_whole(message) for message in messages], tools)
        return Prompt(tuple(rendered), False, because, known)

    def record(
        self, messages: Sequence[Message], tools: Sequence[Tool], answer: Message, token_ids: Sequence[int]
    ) -> None:
        """Note the answer to a call, so that later calls may extend it.

        Args:
            messages: what the call sent.
            tools: what the call sent.
            answer: the assistant message that was returned, as the agent will repeat it.
            token_ids: the prompt and the sampled tokens.
        """
        digest = _digests([*messages, answer], tools)[-1]
        self._answered[digest] = tuple(token_ids)
        opening = _opening(messages, tools)
        self._openings[opening] = max(self._openings.get(opening, 0), len(messages))

    def _break(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Break:
        if not self._openings:
            return Break.FIRST
        most = self._openings.get(_opening(messages, tools))
        if most is None:
            return Break.TOOLS
        return Break.SHORTENED if len(messages) < most else Break.REWRITTEN


def _opening(messages: Sequence[Message], tools: Sequence[Tool]) -> bytes:
    system = [message for message in messages if message.role == _SYSTEM]
    return (_digests(system, tools) or [_tools_digest(tools)])[-1]


def _digests(messages: Sequence[Message], tools: Sequence[Tool]) -> list[bytes]:
    """Return for each message the digest of it and of all before it."""
    digest, digests = _tools_digest(tools), []
    for message in messages:
        digest = blake2b(digest + _canonical(message), digest_size=16).digest()
        digests.append(digest)
    return digests


def _tools_digest(tools: Sequence[Tool]) -> bytes:
    text = json.dumps([tool.model_dump() for tool in tools], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()


def _canonical(message: Message) -> bytes:
    """Return what makes two messages the same.

    Agents repeat an answer with its arguments in another order, ``null`` for an empty text, and without the
    reasoning, which many SDKs drop. What a spliced prompt holds is the reasoning as it was sampled.
    """
    calls = [_canonical_call(call) for call in message.tool_calls or ()]
    content = message.content or ""
    if message.role == "assistant":
        content = without_thoughts(content)
    fields = [message.role, content.strip(), calls, message.tool_call_id]
    return json.dumps(fields, sort_keys=True).encode()


def _whole(message: Message) -> Message:
    """Return a message with its reasoning in the content, which is where chat templates are given it."""
    thought = message.reasoning_content or message.reasoning
    if message.role != "assistant" or not thought:
        return message
    content = f"{OPEN}\n{thought}\n{CLOSE}\n\n{message.content or ''}"
    return message.model_copy(update={"content": content, "reasoning_content": None, "reasoning": None})


def _canonical_call(call: ToolCall) -> list[object]:
    arguments: object = call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = call.function.arguments
    return [call.id, call.function.name, arguments]
