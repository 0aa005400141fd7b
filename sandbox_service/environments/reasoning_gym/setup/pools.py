"""Make and prove the tasks of one dataset at one level.

A level is kept only if its tasks differ in their answers, and if for each of them the stored answer has the
score 1, and empty and meaningless answers, guesses and lists of several do not. Its generator is timed, and
searched for repeated questions. No question is asked twice, in whatever split or level of the dataset.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_service.environments.reasoning_gym.box.generators import make_entry, oracle_answer, raw_score
else:
    from box.generators import make_entry, oracle_answer, raw_score

Json = dict[str, Any]

SEEDS = {"test": 1_000_000, "validation": 1_000_001, "train": 0}
"""Seed of each split. Held-out ones come first, and lie beyond all seeds that a service may be given."""
TASKS = {"test": 5, "validation": 2, "train": 16}
"""Tasks of each split at one level."""
SLOW_TASKS = {"test": 3, "validation": 1, "train": 6}
"""The same, where a question takes long to make."""
SLOW_S = 0.05
"""CPU time of one question from which on it is stored instead of being made again."""
MOST_S = 0.5
"""CPU time of one question on average, at most."""
LIMIT_S = 2.0
"""CPU time of any question, at most."""
MOST_CHARACTERS = 8000
"""Characters of a question or an answer."""
SAMPLE = 100
"""Questions among which repeated ones are looked for, where they are made fast."""
SAMPLE_S = 0.5
"""CPU time for making the sample, which otherwise has fewer questions."""
MOST_REPEATED = 0.01
"""Share of repeated questions from which on a generator is said to repeat itself."""
MOST_FAILED = 0.1
"""Share of questions that may fail in that sample."""
MOST_ALIKE = 0.8
"""Share of a level's tasks that may have the same answer; with more, a constant answer would do."""
_TRIAL = 3
_LEAST_SAMPLE = 30
_PROBED = 3
_LEAST_SHARE = 0.5
"""Share of the wanted tasks with which a level is offered."""
_SPARE = 6
"""Questions to draw from for each task that is wanted, since some repeat others."""
_JUNK = ("", " ", "zzz", "I do not know.", "{}", "[[", "<answer>", "1e400", "nan", "nan+nani", "zzz " * 50)
_GUESSES = ("0", "1")
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")


class LevelError(Exception):
    """The level cannot be offered."""


class QuestionError(Exception):
    """A question cannot be offered."""


class _TooSlow(BaseException):
    """No Exception, so that no generator catches it."""


@dataclass
class Pool:
    """The proven tasks of a level."""

    seconds: float
    """CPU time of one question on average."""
    repeated: float
    """Share of repeated questions in a sample."""
    floor: float = 0.0
    """The highest score of a meaningless answer."""
    tasks: list[Json] = field(default_factory=list)
    """Split, seed, index and answer, and the entry where it is stored."""

    @property
    def fixed(self) -> str | None:
        """Return why only prepared tasks are offered for training, if so."""
        if self.seconds > SLOW_S:
            return "slow"
        return "repeats" if self.repeated > MOST_REPEATED else None


def make_pool(dataset: str, config: Json, asked: set[str]) -> Pool:
    """Return the tasks of a level. Raises LevelError.

    Args:
        dataset: name of the dataset.
        config: configuration of the level.
        asked: questions of the dataset's other levels, which none of this level repeats; its own are added.
    """
    pool = Pool(_seconds(dataset, config), 0.0)
    if pool.seconds > MOST_S:
        raise LevelError(f"a question takes {pool.seconds:.1f} s")
    if pool.fixed is None:
        count = max(_LEAST_SAMPLE, min(SAMPLE, int(SAMPLE_S / max(pool.seconds, 1e-6))))
        pool.repeated = _repeated(dataset, config, count)
    wanted = SLOW_TASKS if pool.fixed == "slow" else TASKS
    seen = set(asked)
    # Held-out questions are drawn first, so that no training question repeats one of them.
    for split, seed in SEEDS.items():
        _draw(pool, dataset, config, split, seed, wanted[split], seen)
    alike = max(Counter(task["answer"] for task in pool.tasks).values()) / len(pool.tasks)
    if alike > MOST_ALIKE:
        raise LevelError(f"{alike:.0%} of its tasks have the same answer")
    asked |= seen
    return pool


def _draw(pool: Pool, dataset: str, config: Json, split: str, seed: int, wanted: int, seen: set[str]) -> None:
    """Add the tasks of a split, leaving out questions that were seen or that cannot be offered."""
    made, problem = 0, "its questions repeat each other"
    for index in range(wanted * _SPARE):
        try:
            entry = _entry(dataset, config, seed, index)
            if entry["question"] not in seen:
                pool.tasks.append(_task(pool, dataset, config, split, seed, index, entry))
                made += 1
            seen.add(entry["question"])
        except QuestionError as error:
            problem = str(error)
        if made == wanted:
            return
    if made < _LEAST_SHARE * wanted:
        raise LevelError(problem)


def _seconds(dataset: str, config: Json) -> float:
    """Return the CPU time of a question on average. Raises LevelError where none can be made."""
    problems = []
    started = 0.0
    for index in range(_TRIAL + 1):
        # Some datasets read large files at their first use, which is no part of the time for a question.
        started = time.process_time() if index == 1 else started
        try:
            _entry(dataset, config, SEEDS["train"], index)
        except QuestionError as error:
            problems.append(str(error))
    if len(problems) > _TRIAL:
        raise LevelError(problems[0])
    return (time.process_time() - started) / _TRIAL


def _repeated(dataset: str, config: Json, count: int) -> float:
    """Return the share of repeated questions in a sample. Raises LevelError where too many cannot be made."""
    questions, failed = [], 0
    for index in range(count):
        try:
            questions.append(_entry(dataset, config, SEEDS["train"], index)["question"])
        except QuestionError as error:
            failed += 1
            if failed > MOST_FAILED * count:
                raise LevelError(str(error)) from error
    return 1 - len(set(questions)) / len(questions)


def _entry(dataset: str, config: Json, seed: int, index: int) -> Json:
    """Return an entry. Raises QuestionError, or LevelError where it takes too long."""
    try:
        with _limit(LIMIT_S):
            entry = make_entry(dataset, config, seed, index)
    except _TooSlow:
        raise LevelError(f"a question takes longer than {LIMIT_S:g} s") from None
    except Exception as error:  # whatever a generator raises for a configuration
        raise QuestionError(f"{type(error).__name__}: {error}") from error
    if max(len(entry["question"]), len(oracle_answer(dataset, entry))) > MOST_CHARACTERS:
        raise QuestionError(f"a question has more than {MOST_CHARACTERS} characters")
    return entry


def _task(pool: Pool, dataset: str, config: Json, split: str, seed: int, index: int, entry: Json) -> Json:
    """Return a task after proving it. Raises QuestionError."""
    task: Json = {"split": split, "seed": seed, "index": index}
    if pool.fixed == "slow":
        try:
            entry = task["entry"] = json.loads(json.dumps(entry))
        except (TypeError, ValueError) as error:
            raise QuestionError(f"an entry cannot be stored: {error}") from error
    task["answer"] = answer = oracle_answer(dataset, entry)
    scored = _scored(dataset, config, seed, entry, answer)
    if scored < 1.0:
        raise QuestionError(f"a stored answer has the score {scored:g}")
    # All meaningless answers for the first tasks, and the likeliest for the others: scorers may be slow.
    junk = _JUNK if len(pool.tasks) < _PROBED else _JUNK[:1]
    for each in (*junk, entry["question"]):
        pool.floor = max(pool.floor, _rejected(dataset, config, seed, entry, each))
    for each in {*_GUESSES, answer[:1]}:
        if not _same_number(each, answer):
            _rejected(dataset, config, seed, entry, each)
    # They deserve the part that a scorer gives for them, but not all.
    others = sorted({other["answer"] for other in pool.tasks[:_PROBED]} - {answer})
    for each in (*_lists(answer, others), *_spoilt(answer, entry["question"])):
        _rejected(dataset, config, seed, entry, each)
    return task


def _lists(answer: str, others: list[str]) -> Iterator[str]:
    """Yield lists of answers with the right one first or last."""
    if others:
        for separator in (" ", ", "):
            yield separator.join([*others, answer])
            yield separator.join([answer, *others])


def _spoilt(answer: str, question: str) -> Iterator[str]:
    """Yield what the answer becomes with an element or a column more, or with other numbers."""
    try:
        listed = json.loads(answer)
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list) and listed:
        yield json.dumps([*listed, "x"])
        if all(isinstance(row, list) for row in listed):
            yield json.dumps([[*row, 0] for row in listed])
    numbers = _NUMBERS.findall(answer)
    # Only numbers of the question itself, which need no rounding.
    if len(numbers) > 1 and set(numbers) <= set(_NUMBERS.findall(question)):
        yield _NUMBERS.sub(lambda number: f"{float(number[0]) + 0.5:g}", answer)


def _same_number(guess: str, answer: str) -> bool:
    """Return whether a guess is the answer or the number with which it begins, as 5 is for ``5 days``."""
    try:
        return guess == answer or float(guess) == float(answer.split()[0])
    except (ValueError, IndexError):
        return False


def _rejected(dataset: str, config: Json, seed: int, entry: Json, junk: str) -> float:
    """Return the score of an answer that is not right. Raises QuestionError where it is the full one."""
    scored = _scored(dataset, config, seed, entry, junk)
    if scored >= 1.0:
        raise QuestionError(f"the answer {junk[:20]!r} has the score 1")
    return scored


def _scored(dataset: str, config: Json, seed: int, entry: Json, answer: str) -> float:
    try:
        with _limit(LIMIT_S):
            return raw_score(dataset, config, seed, entry, answer)
    except _TooSlow:
        raise QuestionError(f"scoring {answer[:20]!r} takes longer than {LIMIT_S:g} s") from None


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
