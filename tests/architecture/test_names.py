"""One public class for each name, and method names that a search finds."""

from pathlib import Path
from typing import Any

import pytest

from scripts.structure.measure import MANY_CLASSES, measure
from scripts.structure.tree import read_tree

ROOT = Path(__file__).parents[2]

ONE_WORD = {
    # The beginning and the end of an object's life, as the standard library, asyncio and httpx name them.
    "aclose",
    "close",
    "kill",
    "open",
    "run",
    "start",
    "stop",
    # Operations of the API: each layer between the client and the world answers them under the same name.
    "evaluate",
    "fork",
    "release",
    "stats",
    "step",
    # Collections, files and connections, as the standard library names them.
    "add",
    "read",
    "remove",
    "request",
    "send",
    "write",
    # asyncio, subprocess and threading name it so, and psycopg, whose connection a store extends.
    "wait",
    # A constructor from another object: ``Problem.of(code)``.
    "of",
    # Methods of one protocol with many implementations: catalogues of environments, also of other packages,
    "describe",
    "payload",
    "reference",
    # formats of tool calls,
    "parse",
    "render",
    # backends of the gateway,
    "call",
    # policies and engines, as vLLM names it,
    "generate",
    # trackers, as Weights & Biases names it,
    "log",
    # and environments of Gymnasium, TRL and games.
    "reset",
}
"""Method names of one word that more than five classes may define; all others are a verb and a noun."""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """The structure's figures of the product."""
    return measure(read_tree(ROOT), {})


def test_no_two_public_classes_have_one_name(names: dict[str, Any]) -> None:
    assert names["classes_defined_twice"] == {}


def test_method_names_of_many_classes_are_a_verb_and_a_noun(names: dict[str, Any]) -> None:
    found = names["one_word_methods_of_many_classes"]
    assert set(found) <= ONE_WORD, f"rename methods that more than {MANY_CLASSES} classes define: {found}"
