"""Normalise a model's thoughts to one notation for the whole trainer: ``<think>...</think>``.

Families mark thoughts differently. Environments and renderings get the common marks, so a call within a
thought is recognised as a draft for every family. A chat template may open the thought itself, at the end of
the prompt; ``opened`` finds the mark that the turn then lacks. Servers return a thought in the content or in
a field of its own, under one of two names; ``thought_of`` reads all three.

Only what a turn begins with is its thought: marks further on are what it speaks of, as code of parsers does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_contract.messages import Message


OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class ThoughtMarks:
    """The marks that a family writes around a thought."""

    begin: str
    end: str
    before: str = ""
    """Text between the opening mark and the thought."""
    after: str = ""
    """Text between the thought and the closing mark."""
    gap: str = ""
    """Text between the closing mark and what is said."""

    def closed_before(self, said: str) -> str:
        """Return what is said behind a prompt that opened a thought, when there is none."""
        return f"\n{self.end}\n\n{said}"

    def framed(self, thought: str, said: str, head: str = "") -> str:
        """Return a thought and what is said behind a prompt, of which ``head`` is the end.

        If the prompt opened the thought, it lacks the opening mark.
        """
        if not head.rstrip().endswith(self.begin):
            return f"{self.begin}{self.before}{thought}{self.after}{self.end}{self.gap}{said}"
        if head.endswith(self.begin):
            return f"{thought}{self.end}{said}"
        return f"{thought}{self.after}{self.end}{self.gap}{said}"


COMMON = ThoughtMarks(OPEN, CLOSE, "\n", "\n", "\n\n")
_OTHERS = (
    ThoughtMarks("<|channel>thought", "<channel|>", "\n", "\n"),  # Gemma 4
    ThoughtMarks("[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    ThoughtMarks("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere Command
    ThoughtMarks("<mm:think>", "</mm:think>"),  # MiniMax M3
    ThoughtMarks("<seed:think>", "</seed:think>"),  # Seed-OSS
)
_HARMONY = "<|channel|>analysis<|message|>"
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class _Leading:
    """The places of a thought that a text begins with, or that follows one."""

    begin: int
    inner: int
    """Behind its opening mark."""
    close: int
    """Of its closing mark, or the end of the text."""
    end: int


def _leading(text: str, known: Sequence[ThoughtMarks]) -> Iterator[_Leading]:
    position = 0
    while space := _SPACE.match(text, position):
        begin = space.end()
        marks = next((each for each in known if text.startswith(each.begin, begin)), None)
        if marks is None:
            return
        inner = begin + len(marks.begin)
        close = text.find(marks.end, inner)
        if close < 0:
            yield _Leading(begin, inner, len(text), len(text))
            return
        position = close + len(marks.end)
        yield _Leading(begin, inner, close, position)


def marked(text: str) -> str:
    """Return the text with the common marks around its leading thoughts in place of a family's own."""
    parts: list[str] = []
    position = 0
    for each in _leading(text, (COMMON, *_OTHERS)):
        closing = CLOSE if each.end > each.close else ""
        parts += [text[position : each.begin], OPEN, text[each.inner : each.close], closing]
        position = each.end
    return "".join([*parts, text[position:]])


def split_thoughts(text: str) -> tuple[str, str]:
    """Split off the leading thoughts with their marks. Calls in thoughts are drafts, not calls.

    A thought ends at its first closing mark, and never if it has none.
    """
    end = max((each.end for each in _leading(text, (COMMON,))), default=0)
    return text[:end], text[end:]


def read_alone(parse: Callable[[str], Message], text: str, marks: ThoughtMarks = COMMON) -> Message:
    """Parse a turn that may lack the mark that opens its thought, since its prompt has it or is unknown.

    It does where a closing mark is left outside of calls. The message's content has the opening mark then.
    """
    message = parse(text)
    if split_thoughts(marked(text))[0]:
        return message
    left = message.content or ""
    closed_by = next((each for each in (marks, COMMON) if each.end in left), None)
    return parse(closed_by.begin + text) if closed_by is not None else message


def own_marks(source: str) -> ThoughtMarks:
    """Return the marks of the family that a chat template belongs to, as far as its source shows."""
    return next((marks for marks in _OTHERS if marks.begin in source or marks.end in source), COMMON)


def opened(prompt: str) -> str:
    """Return the mark of the thought that a prompt ends in, as written there; empty where there is none."""
    end = prompt.rstrip()
    marks = (OPEN, *(other.begin for other in _OTHERS), _HARMONY)
    return next((mark for mark in marks if end.endswith(mark)), "")


def closed(prompt: str) -> bool:
    """Return whether a prompt ends behind a thought, so that the turn has none."""
    return prompt.rstrip().endswith((CLOSE, *(other.end for other in _OTHERS)))


def continued(text: str, head: str, *, thinks: bool) -> str:
    """Return a turn's text behind a prompt, of which ``head`` is the end and which may have opened a thought.

    The mark that the prompt has is not repeated; a text without a thought (``thinks`` is false) closes it
    first.
    """
    mark = opened(head)
    marks = next((each for each in (COMMON, *_OTHERS) if each.begin == mark), None)
    if marks is None:
        return text
    if not thinks:
        return marks.closed_before(text)
    repeated = next((each for each in (marks, COMMON) if text.lstrip().startswith(each.begin)), None)
    if repeated is None:
        return text
    rest = text.lstrip().removeprefix(repeated.begin).removeprefix(head[len(head.rstrip()) :])
    return rest.replace(repeated.end, marks.end, 1)


def thought_before(content: str) -> tuple[str | None, str]:
    """Split the thought that a content begins with, without marks, or None, from what is said behind it."""
    thoughts, said = split_thoughts(content)
    if not thoughts:
        return None, content
    if not thoughts.endswith(CLOSE):
        return content.partition(OPEN)[2], ""
    thought = thoughts.removesuffix(CLOSE).strip().removeprefix(OPEN)
    return thought.strip("\n"), said.lstrip("\n")


def divide(content: str) -> tuple[str | None, str]:
    """Split a content as ``thought_before`` does, also where the prompt may have opened the thought.

    A content without an opening mark is then a thought up to its first closing mark.
    """
    lacking = CLOSE in content and not content.lstrip().startswith(OPEN)
    return thought_before(OPEN + content.lstrip() if lacking else content)


def without_thoughts(content: str) -> str:
    """Return a content without thoughts."""
    return divide(content)[1]


def thought_of(message: Message) -> tuple[str | None, str]:
    """Return a message's thought, wherever it is, or None, and what is said besides."""
    content = message.content or ""
    field = message.reasoning_content or message.reasoning
    if not field:
        return divide(content)
    if not content.lstrip().startswith(OPEN):
        return field, content
    thought, said = divide(content)
    same = not thought or thought.strip() == field.strip()
    return field if same else f"{field}\n{thought}", said


def apart(message: Message) -> Message:
    """Return a message with its thought in ``reasoning_content`` and the rest in the content."""
    thought, said = thought_of(message)
    return message.model_copy(update={"content": said, "reasoning_content": thought, "reasoning": None})


def whole(message: Message) -> Message:
    """Return a message with its thought in the content, in the common marks."""
    thought, said = thought_of(message)
    if not (message.reasoning_content or message.reasoning) or thought is None:
        return message
    content = COMMON.framed(thought, said)
    return message.model_copy(update={"content": content, "reasoning_content": None, "reasoning": None})
