"""All tasks of our own."""

from __future__ import annotations

import files_and_mail
import music_and_shop
import notes_and_todos
import people_and_money

__all__ = ["SCENARIOS"]

SCENARIOS = (
    *notes_and_todos.SCENARIOS,
    *people_and_money.SCENARIOS,
    *files_and_mail.SCENARIOS,
    *music_and_shop.SCENARIOS,
)
