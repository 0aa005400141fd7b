"""Small functions in words, made by a seeded procedure: tasks to train a real language model on.

    easy     one filter or one change     the sum of the numbers that are even
    medium   a filter and a change        a list of the squares of the numbers that are positive, sorted
    hard     two filters, or with a change

A solution is one function. Hidden tests compare it with the procedure's own results; the first argument is
always empty. A description occurs once, and the training split has none of the test part's with its two
filters in the other order. The tasks of an id stay the same for ever, on every machine. None of them comes
from HumanEval or MBPP.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from .dice import Dice
from .program_parts import KINDS, reductions
from .task import CodeTask, ReferenceCall, TestsGrader

if TYPE_CHECKING:
    from .program_parts import InputKind, Part


_SIZES = {
    "test": {"easy": 100, "medium": 100, "hard": 100},
    "train": {"easy": 400, "medium": 400, "hard": 400},
}
"""Tasks by part and difficulty."""
_SEED = 20_261_122
_SHAPES = {"easy": ((1, False), (0, True)), "medium": ((1, True),), "hard": ((2, False), (2, True))}
"""Number of filters, and whether there is a change."""
_LENGTHS = (0, 3, 5, 6, 8, 9)
"""Items in the hidden tests' arguments."""
_TESTED = frozenset({"programs/train/hard/10", "programs/train/hard/51", "programs/train/hard/68"})
"""Drawn for training, but each is a test task with its filters in the other order: they are in no split."""
_LEAST_RESULTS = 4
"""Different results that the hidden tests must want, so that no constant passes many of them."""


@dataclass(frozen=True, slots=True)
class _Program:
    kind: InputKind
    filters: tuple[Part, ...]
    change: Part | None
    reduction: Part

    @property
    def description(self) -> str:
        """Describe the result of the function."""
        chosen = f"the {self.kind.noun}"
        if self.filters:
            chosen += " that " + " and ".join(part.words for part in self.filters)
        changed = self.change.words.format(chosen) if self.change else chosen
        return self.reduction.words.format(changed)

    @property
    def source(self) -> str:
        """The function itself."""
        changed = self.change.code if self.change else "x"
        wanted = " and ".join(part.code for part in self.filters)
        condition = f" if {wanted}" if wanted else ""
        items = f"[{changed} for x in {self.kind.items}{condition}]"
        body = self.reduction.code.format(items)
        return f"def compute({self.kind.parameter}):\n    return {body}\n"

    def results(self, given: Sequence[object]) -> list[object]:
        """Return what the function returns for each argument."""
        namespace: dict[str, object] = {}
        exec(self.source, namespace)  # our own text, of the parts above and nothing else
        compute = namespace["compute"]
        assert callable(compute)
        return [compute(each) for each in given]


def program_splits(tasks: Sequence[CodeTask]) -> dict[str, tuple[str, ...]]:
    """Return ids by split: training and test, each with its difficulties mixed evenly."""
    splits: dict[str, tuple[str, ...]] = {}
    ids = [task.id for task in tasks if task.id not in _TESTED]
    for part in ("train", "test"):
        levels = [
            [each for each in ids if each.startswith(f"programs/{part}/{level}/")] for level in _SIZES[part]
        ]
        rows = zip_longest(*levels)
        splits[f"programs_{part}"] = tuple(each for row in rows for each in row if each is not None)
    return splits


@functools.cache
def load_programs() -> tuple[CodeTask, ...]:
    """Return all tasks, with difficulties mixed evenly: any number from the start is a fair sample.

    They are made once in a process.
    """
    tasks: list[CodeTask] = []
    taken: set[str] = set()
    # The test part is drawn first: the training part leaves out what it holds.
    for part, sizes in _SIZES.items():
        drawn = {level: _draw(part, level, count, taken) for level, count in sizes.items()}
        tasks += [task for together in zip(*drawn.values(), strict=True) for task in together]
    return tuple(tasks)


def _draw(part: str, level: str, count: int, taken: set[str]) -> list[CodeTask]:
    """Return ``count`` tasks whose descriptions are not in ``taken``, and add theirs to it."""
    dice = Dice(f"{_SEED} {part} {level}")
    tasks: list[CodeTask] = []
    while len(tasks) < count:
        program = _program(level, dice)
        example, *given = [program.kind.draw(dice, length) for length in (4, *_LENGTHS)]
        shown, *results = program.results([example, *given])
        informative = bool(shown) and len(set(map(repr, results))) >= _LEAST_RESULTS
        if not informative or program.description in taken:
            continue
        taken.add(program.description)
        signature = f"compute({program.kind.parameter})"
        prompt = (
            f"Write a Python function `{signature}` that returns {program.description}. "
            f"For example, `compute({example!r})` returns `{shown!r}`."
        )
        tests = tuple(
            f"assert compute({argument!r}) == {result!r}"
            for argument, result in zip(given, results, strict=True)
        )
        tasks.append(_task(f"programs/{part}/{level}/{len(tasks) + 1}", level, prompt, tests, program.source))
    return tasks


def _program(level: str, dice: Dice) -> _Program:
    kind = dice.one_of(KINDS)
    filters, changes = dice.one_of(_SHAPES[level])
    chosen: list[Part] = []
    while len(chosen) < filters:
        part = dice.one_of([each for each in kind.filters if each not in chosen])
        chosen.append(part)
    change = dice.one_of(kind.changes) if changes else None
    reduction = dice.one_of(reductions(kind, change))
    return _Program(
        kind, tuple(part.drawn(dice) for part in chosen), change.drawn(dice) if change else None, reduction
    )


def _task(task_id: str, level: str, prompt: str, tests: tuple[str, ...], source: str) -> CodeTask:
    write = f"cat > solution.py <<'END'\n{source}END"
    return CodeTask(
        id=task_id,
        prompt=prompt,
        grader=TestsGrader(kind="tests", names=("compute",), tests=tests),
        difficulty=level,
        category="programs",
        reference=(
            ReferenceCall(tool="execute_bash", arguments={"command": write}),
            ReferenceCall(tool="submit", arguments={}),
        ),
    )
