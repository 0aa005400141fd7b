import ast
import random

import pytest

from sandbox_service.environments.swe_mutants.setup.mutations import choose, find_mutations, is_module

SOURCE = '''\
def clamp(value, low, high):
    """Not 3 < 4."""
    if value < low and not high:  # 1 < 2
        raise ValueError("ä < b")
    for each in range(0, 10):
        if each == 3:
            break
    value += 1
    return max(low, min(value, high))


class Box:
    def is_full(self, items):
        ready = True
        return "ä" in items or len(items) - 1 >= self.size
'''


def edited(kind: str) -> list[str]:
    found = [each for each in find_mutations(SOURCE) if each.kind == kind]
    lines = [each.apply(SOURCE).splitlines()[each.line - 1].strip() for each in found]
    assert all(is_module(each.apply(SOURCE)) for each in found)
    return lines


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "comparison",
            [
                "if value <= low and not high:  # 1 < 2",
                "if each != 3:",
                'return "ä" not in items or len(items) - 1 >= self.size',
                'return "ä" in items or len(items) - 1 > self.size',
            ],
        ),
        (
            "boolean operator",
            [
                "if value < low or not high:  # 1 < 2",
                'return "ä" in items and len(items) - 1 >= self.size',
            ],
        ),
        ("dropped not", ["if value < low and (high):  # 1 < 2"]),
        ("operator", ['return "ä" in items or len(items) + 1 >= self.size']),
        ("constant", ["ready = False"]),
        ("dropped statement", ["pass", "pass"]),
        ("loop control", ["continue"]),
        ("swapped arguments", ["return max(min(value, high), low)", "return max(low, min(high, value))"]),
        (
            "negated condition",
            ["if not (value < low and not high):  # 1 < 2", "if not (each == 3):"],
        ),
    ],
)
def test_an_edit_changes_one_place(kind: str, lines: list[str]) -> None:
    swapped = [line for line in edited(kind) if not line.startswith("for each in range(10")]
    assert sorted(swapped) == sorted(lines)


def test_docstrings_comments_and_strings_stay_as_they_are() -> None:
    for each in find_mutations(SOURCE):
        changed = each.apply(SOURCE)
        assert '"""Not 3 < 4."""' in changed
        assert "# 1 < 2" in changed
        assert changed != SOURCE


def test_edits_are_named_after_their_function() -> None:
    assert {each.function for each in find_mutations(SOURCE)} == {"clamp", "Box.is_full"}


def test_each_function_gets_a_few_edits_of_different_kinds() -> None:
    chosen = choose(find_mutations(SOURCE), 3, random.Random(1))
    kinds = [each.kind for each in chosen if each.function == "clamp"]
    assert len(kinds) == len(set(kinds)) == 3


def test_the_same_seed_draws_the_same_edits() -> None:
    found = find_mutations(SOURCE)
    assert choose(list(found), 2, random.Random(5)) == choose(list(found), 2, random.Random(5))


def test_an_edit_that_gives_no_module_is_known() -> None:
    assert not is_module("def f(:")
    assert is_module(ast.unparse(ast.parse(SOURCE)))
