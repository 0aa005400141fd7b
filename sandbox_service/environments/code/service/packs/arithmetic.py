"""Sums in words, made by a seeded procedure: short tasks in number, for small models and fast runs.

    easy     one operation             compute 37 plus 58
    medium   two, with precedence      what is 37 plus 58 times 4?
    hard     three, with brackets      please give (37 plus 58) times (12 minus 5)

A question is asked once at most, and a test's numbers and operators are in no training question, in whatever
order. Nothing here may change: the tasks of a name are the same for ever, on every machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .dice import Dice
from .task import CodeTask, NumericGrader, ReferenceCall

_SIZES = {
    "test": {"easy": 300, "medium": 150, "hard": 150},
    "train": {"easy": 3000, "medium": 1500, "hard": 1500},
}
"""Tasks by part and difficulty."""
_SEED = 20_260_101
_LEAST, _MOST = 2, 99
_PHRASES = ("compute {}", "what is {}?", "please give {}")
_WORDS = {"+": "plus", "-": "minus", "*": "times"}
_RESULTS: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}

_Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Term:
    words: str
    code: str
    value: int
    parts: _Key
    """Numbers and operators."""

    @property
    def key(self) -> _Key:
        """The same for terms that differ in the order of numbers and operators, or in brackets."""
        return tuple(sorted(self.parts))


@dataclass(frozen=True, slots=True)
class _Question:
    phrase: str
    term: _Term


def arithmetic_splits(tasks: Sequence[CodeTask]) -> dict[str, tuple[str, ...]]:
    """Return ids by split: training and test, each in all difficulties and in the easy one alone."""
    splits: dict[str, tuple[str, ...]] = {}
    for part in ("train", "test"):
        ids = [(task.id, task.difficulty) for task in tasks if task.id.startswith(f"arithmetic/{part}/")]
        splits[f"arithmetic_{part}"] = tuple(each for each, _ in ids)
        splits[f"arithmetic_{part}_easy"] = tuple(each for each, level in ids if level == "easy")
    return splits


@functools.cache
def load_arithmetic() -> tuple[CodeTask, ...]:
    """Return all tasks, with difficulties mixed evenly: any number from the start is a fair sample.

    They are made once in a process.
    """
    tested = {level: _draw("test", level, frozenset()) for level in _FORMS}
    held_out = frozenset(question.term.key for questions in tested.values() for question in questions)
    trained = {level: _draw("train", level, held_out) for level in _FORMS}
    tasks: list[CodeTask] = []
    for part, drawn in (("train", trained), ("test", tested)):
        placed = [
            (number / len(questions), level, number, question)
            for level, questions in drawn.items()
            for number, question in enumerate(questions, 1)
        ]
        placed.sort(key=lambda each: each[:2])
        tasks += [
            _task(f"arithmetic/{part}/{level}/{number}", question, level)
            for _, level, number, question in placed
        ]
    return tuple(tasks)


def _draw(part: str, difficulty: str, held_out: frozenset[_Key]) -> list[_Question]:
    """Return different questions without the numbers and operators that are held out."""
    dice = Dice(f"{_SEED} {part} {difficulty}")
    questions: dict[str, _Question] = {}
    while len(questions) < _SIZES[part][difficulty]:
        question = _Question(dice.one_of(_PHRASES), _FORMS[difficulty](dice))
        if question.term.key not in held_out:
            questions.setdefault(question.term.words, question)
    return list(questions.values())


def _task(task_id: str, question: _Question, difficulty: str) -> CodeTask:
    term = question.term
    # Whole numbers: the tolerance for rounding would let near misses of large ones pass.
    return CodeTask.model_validate(
        {
            "id": task_id,
            "prompt": question.phrase.format(term.words),
            "bare": True,
            "grader": NumericGrader(kind="numeric", answer=term.value, rel_tol=0, abs_tol=0),
            "difficulty": difficulty,
            "category": "arithmetic",
            "reference": (
                ReferenceCall(tool="python", arguments={"code": f"print({term.code})"}),
                ReferenceCall(tool="submit", arguments={"answer": term.value}),
            ),
        }
    )


def _number(dice: Dice) -> _Term:
    value = dice.between(_LEAST, _MOST)
    return _Term(str(value), str(value), value, (str(value),))


def _operator(dice: Dice) -> str:
    return dice.one_of(tuple(_WORDS))


def _easy(dice: Dice) -> _Term:
    return _joined(_number(dice), _operator(dice), _number(dice))


def _medium(dice: Dice) -> _Term:
    first, one, second, two, third = (
        _number(dice),
        _operator(dice),
        _number(dice),
        _operator(dice),
        _number(dice),
    )
    if two == "*" and one != "*":
        return _joined(first, one, _joined(second, two, third))
    return _joined(_joined(first, one, second), two, third)


def _hard(dice: Dice) -> _Term:
    left, right = _bracketed(_easy(dice)), _number(dice)
    match dice.below(3):
        case 0:
            return _joined(left, _operator(dice), _bracketed(_easy(dice)))
        case 1:
            return _joined(_bracketed(_joined(left, _operator(dice), right)), _operator(dice), _number(dice))
    return _joined(_number(dice), _operator(dice), _bracketed(_joined(right, _operator(dice), left)))


_FORMS: dict[str, Callable[[Dice], _Term]] = {"easy": _easy, "medium": _medium, "hard": _hard}


def _joined(left: _Term, operator: str, right: _Term) -> _Term:
    return _Term(
        f"{left.words} {_WORDS[operator]} {right.words}",
        f"{left.code}{operator}{right.code}",
        _RESULTS[operator](left.value, right.value),
        (*left.parts, operator, *right.parts),
    )


def _bracketed(term: _Term) -> _Term:
    return _Term(f"({term.words})", f"({term.code})", term.value, term.parts)
