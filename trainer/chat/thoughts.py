"""A model's thoughts in the one notation that the rest of the trainer knows: ``<think>...</think>``.

Families mark them differently. What the environment receives and what is rendered again has the common
marks, so a call within a thought is recognised as a draft whatever the family. A chat template may open the
thought itself, at the end of the prompt; ``opened`` finds the mark that the turn then lacks.
"""

from __future__ import annotations

__all__ = ["CLOSE", "OPEN", "divide", "marked", "opened", "without_thoughts"]

OPEN, CLOSE = "<think>", "</think>"
_OTHER_MARKS = (
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere Command
    ("<mm:think>", "</mm:think>"),  # MiniMax M3
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
)
_HARMONY = "<|channel|>analysis<|message|>"


def marked(text: str) -> str:
    """The text with the common marks in place of a family's own."""
    for begin, end in _OTHER_MARKS:
        if begin in text or end in text:
            text = text.replace(begin, OPEN).replace(end, CLOSE)
    return text


def opened(prompt: str) -> str:
    """The mark of the thought that a prompt ends in, as it is written there; empty where there is none."""
    end = prompt.rstrip()
    marks = (OPEN, *(begin for begin, _ in _OTHER_MARKS), _HARMONY)
    return next((mark for mark in marks if end.endswith(mark)), "")


def divide(content: str) -> tuple[str | None, str]:
    """The thought that a content begins with, without its marks, or None; and what follows."""
    head, tag, said = content.rpartition(CLOSE)
    if not tag:
        return (content.partition(OPEN)[2], "") if content.lstrip().startswith(OPEN) else (None, content)
    return head.strip().removeprefix(OPEN).strip("\n"), said.lstrip("\n")


def without_thoughts(content: str) -> str:
    """What a content says, drafts left out."""
    return divide(content)[1]
