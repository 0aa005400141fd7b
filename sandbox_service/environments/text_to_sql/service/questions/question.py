"""A question in words and in SQL, and a family of questions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .subjects import subjects

if TYPE_CHECKING:
    from sandbox_service.environments.text_to_sql.box.schema import Schema

    from .subjects import Step


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """One question; it says which columns the answer has, and in which order."""

    category: str
    texts: tuple[str, ...]
    """The question in several words."""
    query: str
    ordered: bool = False
    """The order of the rows is a part of the answer."""


@dataclass(frozen=True, slots=True)
class QuestionFamily:
    """Questions of one kind. Words and query have the names of the subject in braces: ``{table.many}``."""

    name: str
    category: str
    about: tuple[Step, ...]
    """Steps that choose a subject."""
    texts: tuple[str, ...]
    query: str
    ordered: bool = False

    def questions(self, schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
        """Yield all questions about a schema."""
        for names in subjects(schema, self.about, chance):
            texts = tuple(text.format_map(names) for text in self.texts)
            yield SqlQuestion(self.category, texts, self.query.format_map(names), self.ordered)
