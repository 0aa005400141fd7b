"""All tasks of our own."""

from __future__ import annotations

from . import files_and_mail, music_and_shop, notes_and_todos, people_and_money

__all__ = ["SCENARIOS"]

SCENARIOS = (
    *notes_and_todos.SCENARIOS,
    *people_and_money.SCENARIOS,
    *files_and_mail.SCENARIOS,
    *music_and_shop.SCENARIOS,
)
