"""Filter the commands that go to the game, and strip what surrounds its answers."""

from __future__ import annotations

import re

_LETTERS = 9
"""Of a word, what the program's dictionary keeps."""
_WITHHELD = frozenset(
    word[:_LETTERS]
    for word in (
        "disable", "enable", "noscript", "o", "oops", "print", "q", "quit", "restart", "restore", "restrict",
        "save", "script", "transcript", "undo", "unscript", "verify", "version",
    )
)  # fmt: skip
_FOREIGN = re.compile(r"[^A-Za-z0-9 .,;:!?'\"()-]+")
_CLAUSES = re.compile(r"[.,;:!?\n]|\bthen\b|\band\b")
_END = re.compile(r"\.|\bthen\b", re.IGNORECASE)
_COMMA = re.compile(r"\s*,[\s,]*(?:and\b)?\s*", re.IGNORECASE)
_LOOSE = re.compile(r"\A(?:and\b|\s)+|(?:\s|\band)+\Z", re.IGNORECASE)
_STATUS = re.compile(r"\s*>?[ \t]*-= [^\n]* =-\s*-?\d+/\d+\s*\Z")
_QUESTION = re.compile(r"\s*Would you like to RESTART, RESTORE a saved game[^\n]*\?\s*>?\s*\Z")


def plain(action: str) -> str:
    """Return the action in one line of the letters that the program knows; never empty.

    A NUL would end the line early and the program with it, and a backslash begin a command to the machine.
    """
    return " ".join(_FOREIGN.sub(" ", action).split()) or "?"


def withheld(action: str) -> str | None:
    """Return the word of an action that addresses the program, not the game; None without one."""
    for clause in _CLAUSES.split(action.lower()):
        word = clause.split()[0] if clause.split() else ""
        if word[:_LETTERS] in _WITHHELD or word.startswith("tw-"):
            return word
    return None


def commands(line: str) -> list[str]:
    """Return the commands of a line, without the full stops and ``then`` between them; never none.

    The program would take a comma for such an end after a complete command, and for ``and`` in a list of
    things. Here it is always the latter, so that a command is one turn of the game.
    """
    parts = (_LOOSE.sub("", _COMMA.sub(" and ", part)) for part in _END.split(line))
    return [part for part in parts if part] or ["?"]


def observation(feedback: str) -> str:
    """Return what the game says, without the prompt, the status line and the question after the end."""
    return _QUESTION.sub("", _STATUS.sub("", feedback)).strip()
