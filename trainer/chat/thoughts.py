"""Normalise a model's thoughts to one notation for the whole trainer: ``<think>...</think>``.

Families mark thoughts differently. Environments and renderings get the common marks, so a call within a
thought is recognised as a draft for every family. A chat template may open the thought itself, at the end of
the prompt; ``opened`` finds the mark that the turn then lacks.
"""

from __future__ import annotations

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
    """Return the text with a family's own marks replaced by the common ones."""
    for begin, end in _OTHER_MARKS:
        if begin in text or end in text:
            text = text.replace(begin, OPEN).replace(end, CLOSE)
    return text


def opened(prompt: str) -> str:
    """Return the mark of the thought that a prompt ends in, as written there; empty where there is none."""
    end = prompt.rstrip()
    marks = (OPEN, *(begin for begin, _ in _OTHER_MARKS), _HARMONY)
    return next((mark for mark in marks if end.endswith(mark)), "")


def divide(content: str) -> tuple[str | None, str]:
    """Split a content into its leading thought, without marks, or None, and the rest."""
    head, tag, said = content.rpartition(CLOSE)
    if not tag:
        return (content.partition(OPEN)[2], "") if content.lstrip().startswith(OPEN) else (None, content)
    return head.strip().removeprefix(OPEN).strip("\n"), said.lstrip("\n")


def without_thoughts(content: str) -> str:
    """Return a content without thoughts."""
    return divide(content)[1]
