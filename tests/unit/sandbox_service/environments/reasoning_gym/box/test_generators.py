"""The arguments of an entry determine it, whatever the package draws from."""

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sandbox_service.environments.reasoning_gym.box as box

NAME = f"{box.__name__}.generators"


class Dataset:
    """A dataset that draws from the random numbers of the process, and from a set of letters."""

    def __init__(self, name, seed, size, **config):
        self.letters = {chr(code) for code in range(ord("a"), ord("z") + 1)}

    def __getitem__(self, index):
        drawn = [random.random() for _ in range(3)]
        letters = "".join([*self.letters, *(self.letters - {"b"})])
        return {"question": f"{drawn} {letters}", "answer": "yes", "metadata": {}}

    def score_answer(self, answer, entry):
        return 1.0


@pytest.fixture
def generators(monkeypatch):
    """The module with a package of one dataset in place of reasoning-gym."""
    package = ModuleType("reasoning_gym")
    package.create_dataset = Dataset
    monkeypatch.setitem(sys.modules, "reasoning_gym", package)
    spec = importlib.util.spec_from_file_location(NAME, Path(box.__file__).with_name("generators.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_entry_does_not_depend_on_the_random_numbers_drawn_before(generators) -> None:
    first = generators.make_entry("list_functions", {}, 2, 21)
    random.random()
    assert generators.make_entry("list_functions", {}, 2, 21)["question"] == first["question"]
    others = [
        ("list_functions", {}, 2, 22),
        ("list_functions", {}, 3, 21),
        ("list_functions", {"n": 1}, 2, 21),
    ]
    assert all(generators.make_entry(*each)["question"] != first["question"] for each in others)


def test_making_an_entry_leaves_the_random_numbers_of_the_process_alone(generators) -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    generators.make_entry("list_functions", {}, 2, 21)
    assert random.random() == expected


@pytest.mark.parametrize("dataset", ["isomorphic_strings", "ransom_note"])
def test_letters_are_drawn_in_the_same_order_in_every_process(generators, dataset: str) -> None:
    letters = generators.make_entry(dataset, {}, 0, 0)["question"].rpartition(" ")[2]
    assert letters == "abcdefghijklmnopqrstuvwxyzacdefghijklmnopqrstuvwxyz"


def test_a_scorer_is_not_asked_about_an_answer_that_it_would_not_read_to_the_end(generators) -> None:
    entry = {"question": "?", "answer": "LURD", "metadata": {}}
    scores = [generators.raw_score("sokoban", {}, 0, entry, answer) for answer in ("LURD", "First LURD")]
    assert scores == [1.0, 0.0]
