"""A generator that repeats itself gives prepared tasks only, or none; splits and levels stay apart."""

import importlib.util
import json
import re
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sandbox_service.environments.reasoning_gym.setup as setup

NUMBER = re.compile(r"\d+(?:\.\d+)?")
SOURCE = Path(setup.__file__).with_name("pools.py")
CONFIG = {"kinds": 10_000}
"""The configuration of a level is the number of different questions of its generator."""


def make_entry(dataset, config, seed, index):
    question = str((7 * index + seed) % config["kinds"])
    answer = config.get("answers", {}).get(index % 10, config.get("form", "{}").format(question))
    return {"question": f"Say {question}.", "answer": answer, "metadata": {}}


def raw_score(dataset, config, seed, entry, answer):
    """Accept the right answer, and whatever else the configuration's ``accepts`` does."""
    right = entry["answer"]
    return float(answer == right or config.get("accepts", lambda *_: False)(answer, right))


@pytest.fixture
def pools(monkeypatch):
    """The module as the preparation imports it, beside a package ``box`` with generators of its own."""
    generators = ModuleType("box.generators")
    generators.make_entry = make_entry
    generators.oracle_answer = lambda dataset, entry: entry["answer"]
    generators.raw_score = raw_score
    monkeypatch.setitem(sys.modules, "box", ModuleType("box"))
    monkeypatch.setitem(sys.modules, "box.generators", generators)
    spec = importlib.util.spec_from_file_location("pools", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pools", module)
    spec.loader.exec_module(module)
    # The preparation is a program of its own, and leaves its handler.
    handler = signal.getsignal(signal.SIGPROF)
    yield module
    signal.signal(signal.SIGPROF, handler)


def test_a_generator_of_many_questions_is_endless(pools) -> None:
    pool = pools.make_pool("numbers", CONFIG, set())
    assert (pool.repeated, pool.fixed) == (0.0, None)
    assert [task["split"] for task in pool.tasks] == ["test"] * 5 + ["validation"] * 2 + ["train"] * 16


def test_a_generator_that_repeats_itself_gives_prepared_tasks_without_a_repetition(pools) -> None:
    pool = pools.make_pool("numbers", {"kinds": 40}, set())
    assert pool.fixed == "repeats"
    assert pool.repeated == pytest.approx(0.6)
    answers = [task["answer"] for task in pool.tasks]
    assert len(set(answers)) == len(answers) == 23


def test_held_out_questions_are_left_out_of_training(pools) -> None:
    pool = pools.make_pool("numbers", {"kinds": 17}, set())
    answers = {
        split: {task["answer"] for task in pool.tasks if task["split"] == split} for split in pools.SEEDS
    }
    assert len(answers["test"]) == 5
    assert len(answers["train"]) == 17 - 5 - 2
    assert not answers["train"] & (answers["test"] | answers["validation"])


def test_levels_share_no_question_of_whatever_split(pools) -> None:
    asked: set[str] = set()
    levels = [pools.make_pool("numbers", {"kinds": kinds}, asked) for kinds in (10_000, 9_000)]
    assert [len(pool.tasks) for pool in levels] == [23, 23]
    assert len({task["answer"] for pool in levels for task in pool.tasks}) == len(asked) == 46


def test_a_level_whose_questions_other_levels_ask_is_refused_and_asks_none(pools) -> None:
    asked: set[str] = set()
    pools.make_pool("numbers", {"kinds": 24}, asked)
    before = set(asked)
    with pytest.raises(pools.LevelError, match="its questions repeat each other"):
        pools.make_pool("numbers", {"kinds": 26}, asked)
    assert asked == before


@pytest.mark.parametrize("kinds", [1, 3, 12])
def test_a_generator_of_too_few_questions_is_refused_with_the_reason(pools, kinds) -> None:
    with pytest.raises(pools.LevelError, match="its questions repeat each other"):
        pools.make_pool("numbers", {"kinds": kinds}, set())


@pytest.mark.parametrize(
    "accepts",
    [
        lambda answer, right: answer == "0",
        lambda answer, right: answer == "1",
        lambda answer, right: len(answer) == 1 and right.startswith(answer),
        lambda answer, right: answer.startswith(f"{right} "),
        lambda answer, right: answer.endswith(f" {right}"),
        lambda answer, right: answer.startswith(f"{right}, "),
        lambda answer, right: answer.endswith(f", {right}"),
    ],
    ids=[
        "zero",
        "one",
        "beginning",
        "right answer first",
        "right answer last",
        "list begins",
        "list ends",
    ],
)
def test_a_level_whose_scorer_accepts_a_guess_is_refused(pools, accepts) -> None:
    with pytest.raises(pools.LevelError, match="has the score 1"):
        pools.make_pool("numbers", {**CONFIG, "accepts": accepts}, set())


def _begins(answer, right):
    """Accept a list that begins with the right elements, as scorers do that read no more than those."""
    listed = json.loads(answer) if answer.startswith("[") and answer.endswith("]") else None
    return isinstance(listed, list) and listed[:2] == json.loads(right)


def _rows_begin(answer, right):
    rows = json.loads(answer) if answer.startswith("[[") and answer.endswith("]]") else [[]]
    return [row[:1] for row in rows] == json.loads(right)


def _is_near(answer, right):
    numbers, stored = (re.findall(r"\d+(?:\.\d+)?", text) for text in (answer, right))
    return len(numbers) == 2 and all(
        abs(float(a) - float(b)) <= 1 for a, b in zip(numbers, stored, strict=True)
    )


@pytest.mark.parametrize(
    ("form", "accepts"),
    [("[{0}, 1]", _begins), ("[[{0}], [1]]", _rows_begin), ("{0} and {0}", _is_near)],
    ids=["an element more", "a column more", "numbers that are near"],
)
def test_a_level_whose_scorer_accepts_a_spoilt_answer_is_refused(pools, form, accepts) -> None:
    assert pools.make_pool("numbers", {**CONFIG, "form": form}, set()).tasks
    with pytest.raises(pools.LevelError, match="has the score 1"):
        pools.make_pool("numbers", {**CONFIG, "form": form, "accepts": accepts}, set())


def test_other_spellings_of_the_right_number_are_no_guesses(pools) -> None:
    answers = dict(enumerate(["0.0", "1.0", "5 days"]))

    def accepts(answer, right):
        return (answer, right) in [("0", "0.0"), ("1", "1.0"), ("5", "5 days")]

    pool = pools.make_pool("numbers", {**CONFIG, "answers": answers, "accepts": accepts}, set())
    assert {*answers.values()} <= {task["answer"] for task in pool.tasks}


@pytest.mark.parametrize(("constant", "offered"), [(7, True), (9, False)])
def test_a_level_that_one_answer_solves_is_refused(pools, constant: int, offered: bool) -> None:
    config = {**CONFIG, "answers": dict.fromkeys(range(constant), "all zero")}
    asked: set[str] = set()
    if offered:
        assert len(pools.make_pool("numbers", config, asked).tasks) == 23
        return
    with pytest.raises(pools.LevelError, match="have the same answer"):
        pools.make_pool("numbers", config, asked)
    assert not asked
