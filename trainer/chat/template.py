"""A tokenizer's chat template: messages in, text out, in the forms that templates of many families accept.

What follows an assistant's turn is found with a made-up turn: a known word stands for what was said, and the
text behind it is what the template puts there. So no turn is ever rendered, or tokenised, a second time.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, cast

from jinja2 import TemplateError

from sandbox_service.contract.messages import FunctionCall, Message, ToolCall
from trainer.errors import ConfigError

from .tool_formats.base import arguments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from transformers import PreTrainedTokenizerBase

    from sandbox_service.contract.messages import Tool

__all__ = ["Template"]

_Json: TypeAlias = "dict[str, object]"

_SAID = "WHAT-WAS-SAID"
"""Stands for an assistant's turn."""
_HEARD = "WHAT-WAS-HEARD"


class Template:
    """One tokenizer's template. Raises ConfigError where it refuses a conversation in every form."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, source: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._source = source
        if source is None and not tokenizer.chat_template:
            raise ConfigError("the model's tokenizer has no chat template; name one with chat.template")
        self.end = self._found_end()
        """The token's text that ends a turn; empty where the template has none."""
        self._hears_tools = self._tool_messages_appear()

    def render(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, generation: bool = True
    ) -> str:
        """A whole conversation; with ``generation`` up to where the assistant speaks."""
        return self._first(lambda form: self._apply(form(messages), tools, generation))

    def following(self, messages: Sequence[Message], *, closed: bool) -> str:
        """What comes behind an assistant's turn, up to where it speaks again.

        ``closed`` says that the turn ended with its own end token; else that token comes first.
        """
        behind = self._first(lambda form: self._behind(form(messages)))
        if not self.end:
            return behind
        rest = behind.partition(self.end)[2]
        return rest if closed else self.end + rest

    def _behind(self, messages: Sequence[Message]) -> str:
        refusal = TemplateError("it leaves out what the assistant said")
        for exchange in _exchanges(messages):
            try:
                _, said, behind = self._apply([*exchange, *messages], (), True).partition(_SAID)
            except TemplateError as error:
                refusal = error
                continue
            if said:
                return behind
        raise refusal

    def _first(self, attempt: Callable[[Callable[[Sequence[Message]], list[Message]]], str]) -> str:
        """The text of the first form that the template accepts."""
        refusal: TemplateError | None = None
        for form in self._forms():
            try:
                return attempt(form)
            except TemplateError as error:
                refusal = refusal or error
        raise ConfigError(f"the chat template refuses a conversation: {refusal}") from refusal

    def _forms(self) -> Iterator[Callable[[Sequence[Message]], list[Message]]]:
        told = set() if self._hears_tools else {"tool"}
        yield lambda messages: _as_user(messages, told)
        yield lambda messages: _joined(_as_user(messages, told))
        yield lambda messages: _joined(_as_user(messages, told | {"system"}))

    def _apply(self, messages: Sequence[Message], tools: Sequence[Tool], generation: bool) -> str:
        rendered = self._tokenizer.apply_chat_template(
            cast("list[dict[str, str]]", [_as_json(message) for message in messages]),
            tools=[tool.model_dump(mode="json") for tool in tools] or None,
            chat_template=self._source,
            add_generation_prompt=generation,
            tokenize=False,
        )
        return str(rendered)

    def _found_end(self) -> str:
        spoken = self._apply(_spoken(_SAID), (), False).partition(_SAID)[2]
        added = self._tokenizer.added_tokens_decoder
        ids = self._tokenizer.encode(spoken, add_special_tokens=False)
        found = next((added[token] for token in ids if token in added), None)
        return str(found.content) if found is not None else ""

    def _tool_messages_appear(self) -> bool:
        """Some templates leave out roles that they do not know, without a word."""
        heard = Message(role="tool", content=_HEARD, tool_call_id="000000000", name="tool")
        for exchange in _exchanges([heard]):
            try:
                if _HEARD in self._apply([*exchange, heard], (), True):
                    return True
            except TemplateError:
                continue
        return False


def _spoken(said: str, calls: Sequence[ToolCall] = ()) -> list[Message]:
    """A made-up exchange."""
    return [
        Message(role="user", content="."),
        Message(role="assistant", content=said, tool_calls=tuple(calls) or None),
    ]


def _exchanges(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Exchanges that the messages may follow: templates differ in what they want before a tool's message."""
    yield _spoken(_SAID)
    heard = [message for message in messages if message.role == "tool"]
    for content, arguments in ((_SAID, {}), ("", {"said": _SAID})):
        calls = [
            ToolCall(
                id=message.tool_call_id,
                function=FunctionCall(name=message.name or "tool", arguments=json.dumps(arguments)),
            )
            for message in heard
        ]
        if calls:
            yield _spoken(content, calls)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Users who speak twice in a row speak once: many templates want the roles to alternate."""
    joined: list[Message] = []
    for role, group in groupby(messages, key=lambda message: message.role):
        parts = list(group)
        if role in {"user", "system"}:
            text = "\n\n".join(part.content or "" for part in parts)
            parts = [Message(role=role, content=text)]
        joined += parts
    return joined


def _as_user(messages: Sequence[Message], roles: set[str]) -> list[Message]:
    return [
        Message(role="user", content=message.content) if message.role in roles else message
        for message in messages
    ]


def _as_json(message: Message) -> _Json:
    """A message as templates expect it: text for content, objects for arguments."""
    told = message.model_dump(mode="json", exclude_none=True, exclude={"tool_calls"})
    told["content"] = message.content or ""
    if message.tool_calls:
        told["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": arguments_of(call)},
            }
            for call in message.tool_calls
        ]
    return told
