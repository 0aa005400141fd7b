"""End an answer after its first tool call, for agents that ask for one call at a time.

Tokens after the one that completes the call are dropped, which leaves the log-probabilities of those before
it as they are. Some notations close all calls of an answer together, so that no part of it is one call: such
an answer keeps its tokens, and the agent is shown the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_contract.messages import Message
from trainer.chat.tool_formats.base import arguments_of

from .stop_texts import Cut, shortened

if TYPE_CHECKING:
    from sandbox_contract.messages import Tool, ToolCall
    from trainer.chat import ChatTokenizer

_CLOSING = "}>"
"""One of them is the last character of a call in every notation that does not write a list."""


@dataclass(frozen=True, slots=True)
class FirstCall:
    """An answer with one tool call at most."""

    cut: Cut
    message: Message
    dropped: int
    """Tool calls that were sampled after the first one."""


def cut_after_first_call(
    chat: ChatTokenizer, cut: Cut, message: Message, tools: Sequence[Tool], head: Sequence[int]
) -> FirstCall:
    """Drop the tool calls after the first one, with their tokens where the notation allows it.

    Args:
        chat: the model's tokenizer and tool format.
        cut: what was sampled.
        message: what it parses to.
        tools: of the call.
        head: the last tokens of the prompt.
    """
    calls = message.tool_calls or ()
    if len(calls) < 2:
        return FirstCall(cut, message, 0)
    parse = partial(chat.parse, tools=tools, prompt=head)
    end = _end_of_first(cut.text, calls, parse)
    if end is not None:
        end += _closing_after(cut.text[end:], chat, calls[0], tools)
        kept = _tokens_of(end, cut.generation.token_ids, chat.said)
        text = chat.said(cut.generation.token_ids[:kept])
        first = parse(text)
        if first.tool_calls == calls[:1]:
            return FirstCall(Cut(shortened(cut.generation, kept), text, None), first, len(calls) - 1)
    shown = message.model_copy(update={"tool_calls": calls[:1]})
    return FirstCall(cut, shown, len(calls) - 1)


def _end_of_first(text: str, calls: Sequence[ToolCall], parse: Callable[[str], Message]) -> int | None:
    """Return the end of the shortest beginning of a text that has its first call alone.

    Each beginning is parsed, so that the search starts where the call can end: no notation writes the texts
    of its arguments, which may be before its name, in fewer characters.
    """
    low, high = text.find(calls[0].function.name), text.rfind(calls[-1].function.name)
    arguments = arguments_of(calls[0])
    keys = arguments if isinstance(arguments, dict) else ()
    begin = min([low, *(at for key in keys if (at := text.find(key)) >= 0)])
    for place in range(max(low + 1, begin + _characters(arguments)), high):
        if text[place] in _CLOSING and parse(text[: place + 1]).tool_calls == calls[:1]:
            return place + 1
    return None


def _characters(value: object) -> int:
    """Return the characters of all texts in a value."""
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    if isinstance(value, list):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else 0


def _closing_after(rest: str, chat: ChatTokenizer, call: ToolCall, tools: Sequence[Tool]) -> int:
    """Return the characters of the closing mark that follows a call, which parsers do not demand."""
    written = chat.format.render(Message(role="assistant", tool_calls=(call,)))
    whole = chat.format.parse(written, tools=tools).tool_calls
    end = next(
        (
            end
            for end in range(_characters(arguments_of(call)), len(written))
            if chat.format.parse(written[:end], tools=tools).tool_calls == whole
        ),
        len(written),
    )
    mark, following = written[end:].strip(), rest.lstrip()
    return len(rest) - len(following) + len(mark) if mark and following.startswith(mark) else 0


def _tokens_of(characters: int, token_ids: Sequence[int], said: Callable[[Sequence[int]], str]) -> int:
    """Return how many of the first tokens have so many characters."""
    least, most = 1, len(token_ids)
    while least < most:
        middle = (least + most) // 2
        if len(said(token_ids[:middle])) >= characters:
            most = middle
        else:
            least = middle + 1
    return least
