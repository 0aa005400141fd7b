"""The grade of a conversation: the database, what the customer was told, and the rules that were broken.

The database is compared with the one that the expected calls lead to. A fact counts as told if a message to
the customer names it among few others of its kind, so that telling everything tells nothing. No model judges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .desk import Desk
from .rental_data import make_database
from .tools import run_tool

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_KINDS = MappingProxyType(
    {
        "amount": re.compile(r"(?<![\d.,])\d{1,6}\.\d\d(?![\d])"),
        "booking": re.compile(r"\bB-\d{1,6}\b"),
        "transfer": re.compile(r"\bT-\d{1,6}\b"),
    }
)
"""The written form of the values of a kind of fact."""
_MOST_IN_MESSAGE = 4
"""Different values of a kind in a message that tells one."""
_MOST_IN_CONVERSATION = 12
"""Different values of a kind in all messages to the customer."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The parts of a grade; all must be right."""

    database: bool
    """It is as the expected calls leave it."""
    facts_told: int
    facts: int


def expected_database(name: str, calls: Sequence[Sequence[Any]]) -> JsonObject:
    """Return the database after calls, each a name and arguments. Raises DeskError."""
    desk = Desk(make_database(name))
    for tool, arguments in calls:
        run_tool(desk, tool, arguments)
    return desk.database


def grade(database: JsonObject, name: str, told: Sequence[str], grading: JsonObject) -> Grade:
    """Grade a database of this name and the messages to the customer."""
    same = database == expected_database(name, grading["calls"])
    facts: list[JsonObject] = grading["facts"]
    return Grade(same, sum(is_told(fact, told) for fact in facts), len(facts))


def is_told(fact: JsonObject, told: Sequence[str]) -> bool:
    """Return whether messages tell a fact: one of them names its value among few others of its kind."""
    pattern = _KINDS[fact["kind"]]
    values = [set(pattern.findall(text)) for text in told]
    if len(set().union(*values)) > _MOST_IN_CONVERSATION:
        return False
    return any(fact["value"] in found and len(found) <= _MOST_IN_MESSAGE for found in values)
