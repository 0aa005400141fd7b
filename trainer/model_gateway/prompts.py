"""Make the prompt tokens of a call: splice behind what was sampled before, or render the whole conversation.

A spliced prompt keeps the tokens of an earlier call, prompt and sampled, and tokenizes the new messages only.
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

from trainer.chat.thoughts import without_thoughts

from .forest import Break

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall
    from trainer.chat import ChatTokenizer

_SYSTEM = "system"


class PromptPolicy(StrEnum):
    """The way in which the prompts of a session are made."""

    SPLICE = "splice"
    """Behind an earlier call where the messages allow it, else rendered."""
    RENDER = "render"
    """Always by the chat template."""


@dataclass(slots=True, eq=False)
class _Path:
    """Tokens of a conversation that grows: earlier answers have a prefix of them, the last one all."""

    token_ids: list[int]


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """An answered call, which later ones may extend."""

    number: int
    path: _Path
    end: int
    """Its tokens, prompt and sampled, are the first so many of the path."""


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a call, and which of them an earlier call had."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    known: int
    """Messages at its beginning that an earlier call had, that call's answer included."""
    behind: KnownAnswer | None
    """The call that its prompt is spliced behind; None if it is rendered."""
    because: Break
    """The reason why it does not extend an earlier call; ``EXTENDS`` where it is spliced."""
    digest: bytes
    """Of all messages and tools."""
    opening: bytes
    """Digest of the system prompt and tools."""

    @property
    def new(self) -> Sequence[Message]:
        """Return the messages that are tokenized for its prompt."""
        return self.messages if self.behind is None else self.messages[self.known :]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a call."""

    token_ids: tuple[int, ...]
    history: History


class Prompts:
    """The prompts of one session, in which an agent may repeat, shorten or rewrite its history."""

    def __init__(self, chat: ChatTokenizer, policy: PromptPolicy = PromptPolicy.SPLICE) -> None:
        self._chat = chat
        self._policy = policy
        self._answered: dict[bytes, KnownAnswer] = {}
        """Answered calls by the digest of their messages, answer included."""
        self._openings: dict[bytes, int] = {}
        """The most messages that were sent under one list of tools and one system prompt."""

    def read(self, messages: Sequence[Message], tools: Sequence[Tool]) -> History:
        """Return the messages of a call with what is known of them, and how its prompt will be made."""
        head = _tools_digest(tools)
        digests = _digests(head, messages)
        opening = _digests(head, [message for message in messages if message.role == _SYSTEM])[-1]
        # The longest beginning that was answered, so that as little as possible is tokenized anew.
        known = next((n for n in range(len(messages), 0, -1) if digests[n] in self._answered), 0)
        tail = messages[known:]
        extends = known > 0 and bool(tail) and all(message.role != "assistant" for message in tail)
        behind = None
        if extends and self._policy is PromptPolicy.SPLICE:
            behind, because = self._answered[digests[known]], Break.EXTENDS
        else:
            because = Break.RENDERED if extends else self._break(len(messages), opening)
        return History(messages, tools, known, behind, because, digests[-1], opening)

    def prompt(self, history: History) -> Prompt:
        """Return the prompt of a call, which takes time in proportion to the new messages.

        Raises ConfigError where the chat template does not take the messages.
        """
        behind = history.behind
        if behind is None:
            return Prompt(tuple(self._chat.opening(history.new, history.tools)), history)
        before = behind.path.token_ids
        tail = self._chat.continuation(history.new, before[behind.end - 1])
        return Prompt((*before[: behind.end], *tail), history)

    def record(self, prompt: Prompt, answer: Message, number: int, sampled_ids: Sequence[int]) -> None:
        """Note the answer to a call, so that later calls may extend it.

        Args:
            prompt: of the call.
            answer: the assistant message that was returned, as the agent will repeat it.
            number: of the call.
            sampled_ids: the answer's tokens.
        """
        history, behind = prompt.history, prompt.history.behind
        if behind is not None and behind.end == len(behind.path.token_ids):
            path = behind.path  # a long conversation keeps one copy of its tokens
            path.token_ids += [*prompt.token_ids[behind.end :], *sampled_ids]
        else:
            path = _Path([*prompt.token_ids, *sampled_ids])
        answered = KnownAnswer(number, path, len(path.token_ids))
        self._answered[_next_digest(history.digest, answer)] = answered
        most = self._openings.get(history.opening, 0)
        self._openings[history.opening] = max(most, len(history.messages))

    def _break(self, messages: int, opening: bytes) -> Break:
        if not self._openings:
            return Break.FIRST
        most = self._openings.get(opening)
        if most is None:
            return Break.TOOLS
        return Break.SHORTENED if messages < most else Break.REWRITTEN


def _digests(head: bytes, messages: Sequence[Message]) -> list[bytes]:
    """Return the digest of the tools, and for each message that of it and of all before it."""
    digests = [head]
    for message in messages:
        digests.append(_next_digest(digests[-1], message))
    return digests


def _next_digest(before: bytes, message: Message) -> bytes:
    return blake2b(before + _canonical(message), digest_size=16).digest()


def _tools_digest(tools: Sequence[Tool]) -> bytes:
    text = json.dumps([tool.model_dump() for tool in tools], sort_keys=True) if tools else ""
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
    return repr((message.role, content.strip(), calls, message.tool_call_id)).encode()


def _canonical_call(call: ToolCall) -> tuple[object, ...]:
    arguments: object = call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    # Anthropic Messages has no place for arguments that are no object: its agents repeat an empty one.
    found = arguments if isinstance(arguments, dict) else {}
    return call.id, call.function.name, json.dumps(found, sort_keys=True)
