"""The figures of a tree, and the commands that print them."""

import json

import pytest

from scripts.structure.__main__ import main
from scripts.structure.measure import measure
from scripts.structure.table import functions_by_package
from scripts.structure.tree import read_pages, read_tree
from scripts.structure.wording import WORDING_TO_AVOID, count_wording

from .made_up_tree import write_tree

TILL = """
from shop import coin
from shop.coin import Coin
import bank

class Till:
    X = 1
"""
METHODS = "class {name}:\n    def close(self) -> None: ...\n    def close_till(self) -> None: ...\n"
FILES = {
    "shop/__init__.py": "",
    "shop/till.py": TILL,
    "shop/coin.py": "class Coin:\n    X = 1\n",
    "bank/__init__.py": '"""Says what is told at the desk."""\n',
    "bank/coin.py": "class Coin:\n    Y = 2\n",
    "bank/doors.py": "".join(METHODS.format(name=f"Door{number}") for number in range(6)),
    "tests/test_coin.py": "class Coin:\n    Z = 3\n",
    "docs/page.md": "The publication was told.\n",
}


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path, FILES)


def figures_of(tree):
    return measure(read_tree(tree), read_pages(tree))


def test_packages_the_product_and_the_tests_have_a_row_each(tree):
    rows = figures_of(tree)["packages"]
    assert {name: row["files"] for name, row in rows.items()} == {
        "product": 6,
        "bank": 3,
        "shop": 3,
        "tests": 1,
    }
    assert rows["product"]["lines"] == rows["bank"]["lines"] + rows["shop"]["lines"] == 6 + 2 + 1 + 2 + 18
    assert rows["product"]["largest_file"] == [18, "bank/doors.py"]


def test_classes_with_one_name_are_listed_without_those_of_tests(tree):
    assert figures_of(tree)["classes_defined_twice"] == {"Coin": ["bank/coin.py", "shop/coin.py"]}


def test_methods_of_one_word_are_listed_when_more_than_five_classes_define_them(tree):
    figures = figures_of(tree)
    assert figures["one_word_methods_of_many_classes"] == {"close": 6}
    assert figures["one_word_methods_percent"] == 50.0
    (tree / "bank/doors.py").write_text("".join(METHODS.format(name=f"Door{each}") for each in range(5)))
    assert figures_of(tree)["one_word_methods_of_many_classes"] == {}


def test_fan_out_counts_modules_and_not_the_names_within(tree):
    first = figures_of(tree)["fan_out"][0]
    assert first == {"module": "shop.till", "runtime": 2, "with_typing": 2}


def test_wording_is_counted_by_package_and_in_the_pages(tree):
    wording = figures_of(tree)["wording_to_avoid"]
    assert wording["bank"] == {"desk": 1, "told": 1}
    assert wording["shop"] == {}
    assert wording["product"] == {"desk": 1, "told": 1}
    assert wording["docs"] == {"publication": 1, "told": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ToldService told_service TOLD", {"told": 3}),
        ("imitation imitates Imitated", {"imitate": 3}),
        ("untold seating desktop immaterial stellar tell_x", {"tell": 1}),
        ("", {}),
    ],
)
def test_words_are_counted_in_prose_and_in_names_but_not_within_other_words(text, expected):
    assert count_wording(text) == expected


def test_each_word_to_avoid_has_a_replacement():
    assert all(better for _, better in WORDING_TO_AVOID.values())


def test_the_command_prints_a_table_json_and_a_comparison(tree, capsys):
    assert main(["--tree", str(tree)]) == 0
    table = capsys.readouterr().out
    assert "wording to avoid" in table
    assert "  Coin: bank/coin.py, shop/coin.py" in table
    assert main(["--tree", str(tree), "--json"]) == 0
    before = capsys.readouterr().out
    assert json.loads(before) == json.loads(json.dumps(figures_of(tree)))
    (tree / "before.json").write_text(before)
    (tree / "shop/coin.py").unlink()
    assert main(["--tree", str(tree), "--compare", str(tree / "before.json")]) == 0
    rows = {line[:28].strip(): line[28:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows["files"] == ["6", "5"]
    assert rows["classes defined twice"] == ["1", "0"]


def test_what_cannot_be_measured_is_an_error_in_a_sentence(tmp_path, capsys):
    assert main(["--tree", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}: no pyproject.toml here names a package")


def test_functions_of_a_path_are_counted_by_package_once_for_all_processes():
    path = {"order": {"a": ["shop/till.py:1 pay", "bank/account.py:3 draw"], "b": ["shop/till.py:1 pay"]}}
    assert functions_by_package(path) == {"shop": 1, "bank": 1}
