"""Every error has a text, also one of a class that fails to give it."""

import pytest

from tests.fakes.wordless_error import WordlessError
from trainer.error_text import error_text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("name"), "KeyError: 'name'"),
        (SystemExit(3), "SystemExit: 3"),
        (WordlessError(), "WordlessError (its message is unavailable: str() raised ValueError)"),
    ],
    ids=["usual", "exit", "wordless"],
)
def test_an_error_has_a_text(error, text) -> None:
    assert error_text(error) == text
