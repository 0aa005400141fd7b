"""The counts of one file."""

from textwrap import dedent

from scripts.structure.file_facts import facts_of

SOURCE = '''
"""What a till is.

It holds money.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from .coins import Coin
from shop import money

if TYPE_CHECKING:
    from bank.account import Account

__all__ = ["Till"]

LOG = logging.getLogger(__name__)
# Opened by hand.
_RATE = 3  # a comment beside code


class Till:
    """Holds coins."""

    size: int = 1
    """How many."""

    def open(self, account: Account) -> dict[str, Any]:
        """How it is opened."""
        from shop.locks import Lock

        def turn() -> None:
            pass

        return {}

    def _shut(self) -> None:
        pass


class _Hidden:
    def open(self) -> None: ...


def total(rows: dict[str, dict[str, Any]]) -> None:
    """Add up."""
'''


def facts(text=SOURCE, module="shop.till", **options):
    return facts_of(dedent(text).lstrip("\n"), module, **options)


def test_the_header_ends_with_the_last_import_or_list_of_names_before_the_code():
    assert facts().header_lines == 17
    assert facts("X = 1\nimport os\n").header_lines == 0


def test_only_lines_that_are_a_comment_count_as_comments():
    assert facts().comment_lines == 1
    assert facts('X = """\n# no comment\n"""\n').comment_lines == 0


def test_docstrings_of_modules_classes_functions_and_fields_count_as_lines():
    assert facts().docstring_lines == 4 + 1 + 1 + 1 + 1


def test_definitions_with_a_docstring_are_documented():
    counted = facts()
    assert (counted.documented, counted.definitions) == (3, 7)


def test_functions_are_measured_with_their_qualified_names():
    assert sorted(facts().functions) == [
        (1, "_Hidden.open"),
        (2, "Till._shut"),
        (2, "Till.open.turn"),
        (2, "total"),
        (8, "Till.open"),
    ]


def test_public_classes_and_methods_are_listed():
    counted = facts()
    assert counted.public_classes == ["Till"]
    assert counted.methods == [("Till", "open"), ("_Hidden", "open")]


def test_imports_are_resolved_and_those_for_types_are_apart():
    counted = facts()
    assert {"shop.coins.Coin", "shop.money", "shop.locks.Lock"} <= counted.runtime_imports
    assert counted.typing_imports == {"bank.account.Account"}


def test_relative_imports_of_a_package_begin_in_the_package():
    text = "from . import coins\nfrom ..bank import account\n"
    assert facts(text, "shop.tills", is_package=True).runtime_imports == {
        "shop.tills.coins",
        "shop.bank.account",
    }


def test_untyped_dictionaries_are_counted_within_other_types_too():
    assert facts().untyped_dicts == 2


def test_loggers_are_listed_by_spelling():
    assert facts().loggers == [("LOG", "logging.getLogger")]
    assert facts("_log = structlog.get_logger()\n").loggers == [("_log", "structlog.get_logger")]


def test_docstrings_that_begin_with_a_question_word_are_listed():
    assert facts().question_docstrings == ["What a till is.", "How it is opened."]
    assert facts('"""However it is opened."""\n').question_docstrings == []


def test_lists_of_names_and_blocks_for_types_are_measured():
    counted = facts()
    assert (counted.has_all, counted.all_lines) == (True, 1)
    assert (counted.has_type_checking, counted.type_checking_lines) == (True, 2)
    assert not facts("X = 1\n").has_all
