"""Normalise a model's thoughts to one notation for the whole trainer: ``<think>...</think>``.

Families mark thoughts differently. Environments and renderings get the common marks, so a call within a
thought is recognised as a draft for every family. A chat template may open the thought itself, at the end of
the prompt; ``opened`` finds the mark that the turn then lacks. Servers return a thought in the content or in
a field of its own, under one of two names; ``thought_of`` reads all three.
"""

from __future__ import annotations

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


def marked(text: str) -> str:
    """Return the text with a family's own marks replaced by the common ones."""
    for marks in _OTHERS:
        if marks.begin in text or marks.end in text:
            text = text.replace(marks.begin, OPEN).replace(marks.end, CLOSE)
    return text


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


def divide(content: str) -> tuple[str | None, str]:
    """Split a content into its leading thought, without marks, or None, and the rest."""
    head, tag, said = content.rpartition(CLOSE)
    if not tag:
        return (content.partition(OPEN)[2], "") if content.lstrip().startswith(OPEN) else (None, content)
    return head.strip().removeprefix(OPEN).strip("\n"), said.lstrip("\n")


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
