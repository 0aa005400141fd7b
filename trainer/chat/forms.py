"""Alternative forms of a conversation, one of which each chat template accepts.

Templates differ in the roles and fields that they support, and some silently drop others. A form describes
how messages deviate from OpenAI's; the first one in which everything appears is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from sandbox_contract.messages import Message

from .thought_places import ThoughtPlace
from .thoughts import COMMON, ThoughtMarks, apart, thought_of
from .tool_formats.base import arguments_of

if TYPE_CHECKING:
    from sandbox_contract.messages import ToolCall

Json: TypeAlias = "dict[str, object]"
_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""The names that templates look for."""
_WRITTEN_APART = {"tool_calls", "images", "reasoning_content", "reasoning"}
"""Fields of a message that are not copied."""


@dataclass(frozen=True, slots=True)
class TemplateDialect:
    """A template's handling of fields that templates disagree about; determined once."""

    calls: bool = True
    """Whether it renders an assistant's tool calls."""
    tool_role: bool = True
    """Whether it renders messages of tools."""
    one_call: bool = False
    """Whether it renders only the first of a message's calls."""
    arguments_as_text: bool = False
    """Whether it takes the arguments of a call as JSON text."""
    empty_as_none: bool = False
    """Whether it needs null as the content of a message with calls only."""
    named_ids: bool = False
    """Whether ids of calls are ``functions.NAME:NUMBER``."""
    thoughts: ThoughtPlace = ThoughtPlace.CONTENT
    """The place in which it is given thoughts."""
    marks: ThoughtMarks = COMMON
    """The marks of thoughts in the content."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a conversation."""

    dialect: TemplateDialect
    joined: bool = False
    """Consecutive user messages are joined."""
    system_as_user: bool = False
    written_calls: bool = False
    """Calls are text in the content."""
    tools_as_users: bool = False
    said_in_thought: bool = False
    """Words before calls join the thought, for templates that render only one of the two."""
    calls_apart: bool = False
    """Each call is in a message of its own, before its answer."""
    words_before_calls: bool = False
    """Words before calls are a message of their own, for templates that drop them."""
    words_apart: bool = False
    """The assistant's words are a placeholder in the rendering, for templates that cut them or need some."""

    def messages(self, messages: Sequence[Message], written: Callable[[Message], str]) -> list[Message]:
        """Return the messages in this form; ``written`` turns a message with calls into text."""
        messages = _with_words_before_calls(messages) if self.words_before_calls else messages
        messages = calls_apart(messages) if self.calls_apart else messages
        users = {"tool"} if self.tools_as_users else set[str]()
        users |= {"system"} if self.system_as_user else set()
        prepared = [
            Message(role="user", content=message.content)
            if message.role in users
            else _without_calls(message, written)
            if self.written_calls and message.tool_calls
            else message
            for message in messages
        ]
        return _joined(prepared) if self.joined else prepared

    def json(self, message: Message) -> Json:
        """Return a message as templates expect it: text for content, an object or text for arguments."""
        prepared = message.model_dump(mode="json", exclude_none=True, exclude=_WRITTEN_APART)
        prepared["content"] = message.content or ""
        if message.role == "tool" and self.dialect.named_ids:
            prepared["tool_call_id"] = _named_id(message.tool_call_id, message.name)
        if message.role == "assistant":
            prepared |= self._thinking(message)
        if message.tool_calls:
            if self.dialect.empty_as_none and not prepared["content"]:
                prepared["content"] = None
            prepared["tool_calls"] = [
                {
                    "id": _named_id(call.id, call.function.name) if self.dialect.named_ids else call.id,
                    "type": "function",
                    "function": {
                        "name": call.function.name,
                        "arguments": _arguments(call, as_text=self.dialect.arguments_as_text),
                    },
                }
                for call in message.tool_calls
            ]
        return prepared

    def _thinking(self, message: Message) -> Json:
        """Return the content and the fields of a message with a thought; nothing where it has none."""
        thought, said = thought_of(message)
        if thought is None:
            return {}
        if self.said_in_thought and message.tool_calls and said:
            thought, said = f"{thought}\n\n{said}", ""
        match self.dialect.thoughts:
            case ThoughtPlace.FIELDS:
                return {"content": said, **dict.fromkeys(_THOUGHT_FIELDS, thought)}
            case ThoughtPlace.CONTENT:
                given = self.dialect.marks == COMMON and not (message.reasoning_content or message.reasoning)
                return {} if given else {"content": self.dialect.marks.framed(thought, said)}
            case ThoughtPlace.NOWHERE:
                return {"content": said}


def forms(dialect: TemplateDialect, messages: Sequence[Message]) -> Iterator[Form]:
    """Return the forms to try, the one closest to the original messages first."""
    yield from _whole(dialect, messages)
    if any(message.role == "assistant" for message in messages):
        yield from (replace(form, words_apart=True) for form in _whole(dialect, messages))


def _whole(dialect: TemplateDialect, messages: Sequence[Message]) -> Iterator[Form]:
    """Return the forms in which the template gets all words."""
    calls = any(message.tool_calls for message in messages)
    tools = any(message.role == "tool" for message in messages)
    plain = Form(dialect)
    for written in (False, True) if calls else (False,):
        if calls and not written and not dialect.calls:
            continue
        for as_users in (False, True) if tools else (False,):
            if tools and not as_users and not dialect.tool_role:
                continue
            form = replace(plain, written_calls=written, tools_as_users=as_users)
            yield form
            if calls and not written and dialect.one_call:
                yield replace(form, calls_apart=True)
            if calls and not written and dialect.thoughts is ThoughtPlace.FIELDS:
                yield replace(form, said_in_thought=True)
                yield replace(form, words_before_calls=True, calls_apart=dialect.one_call)
            yield replace(form, joined=True)
            yield replace(form, joined=True, system_as_user=True)


def _arguments(call: ToolCall, *, as_text: bool) -> object:
    """Return the arguments of a call as JSON text, or as a value."""
    given = call.function.arguments
    if not as_text:
        return arguments_of(call)
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _named_id(number: str | None, name: str | None) -> str | None:
    """Return the id of a call that the trainer numbered; others stay unchanged."""
    return f"functions.{name}:{int(number)}" if name and number and number.isdecimal() else number


def _without_calls(message: Message, written: Callable[[Message], str]) -> Message:
    """Return a message with its calls as text, and its thought apart."""
    said = apart(message)
    text = written(said.model_copy(update={"reasoning_content": None}))
    return said.model_copy(update={"content": text, "tool_calls": None})


def _with_words_before_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the words of those with calls in others before them; thoughts stay."""
    made: list[Message] = []
    for message in messages:
        said = thought_of(message)[1] if message.tool_calls else ""
        if said:
            made.append(Message(role="assistant", content=said))
            message = apart(message).model_copy(update={"content": None})
        made.append(message)
    return made


def calls_apart(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with one call in each, followed by the answers to it; words stay with the first."""
    made: list[Message] = []
    waiting: list[Message] = []
    for message in messages:
        answered = [
            each for each in waiting if each.tool_calls and each.tool_calls[0].id == message.tool_call_id
        ]
        placed = answered if message.role == "tool" else waiting
        waiting = [each for each in waiting if each not in placed]
        calls = message.tool_calls or ()
        later = [Message(role="assistant", tool_calls=(call,)) for call in calls[1:]]
        made += [*placed, message.model_copy(update={"tool_calls": calls[:1]}) if later else message]
        waiting += later
    return [*made, *waiting]


def _joined(messages: Sequence[Message]) -> list[Message]:
    joined: list[Message] = []
    for role, group in groupby(messages, key=lambda message: message.role):
        parts = list(group)
        if role in {"user", "system"}:
            text = "\n\n".join(part.content or "" for part in parts)
            parts = [Message(role=role, content=text)]
        joined += parts
    return joined
