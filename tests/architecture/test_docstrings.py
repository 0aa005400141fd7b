"""Docstrings begin as sentences do that say what a thing is or does."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "sandbox_service",
    "clients",
    "trainer",
    "deploy",
    "service_cli",
    "sandbox_settings",
    "local_processes",
    "page_styles",
    "scripts",
    "examples",
    "tests",
)
QUESTION_WORDS = {
    "How",
    "That",
    "What",
    "Whatever",
    "When",
    "Where",
    "Which",
    "Who",
    "Whoever",
    "Whose",
    "Why",
}


def _first_words(file: Path) -> Iterator[str]:
    """Yield place and first word of each string that stands alone: docstrings, and those under a field."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            words = node.value.value.split() if isinstance(node.value.value, str) else []
            if words:
                yield f"{file.relative_to(ROOT)}:{node.lineno} {words[0].rstrip(',:;')}"


def test_no_docstring_begins_with_a_question_word() -> None:
    """``Time for a reset``, not ``How long a reset takes``; ``Return``, not ``What is returned``."""
    found = [
        place
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        if "build" not in file.parts
        for place in _first_words(file)
        if place.rpartition(" ")[2] in QUESTION_WORDS
    ]
    assert found == []
