"""Make entries of reasoning-gym's datasets, and read the stored answers and scores of them.

An entry is determined by dataset, configuration, seed and index. ``setup/prepare.py`` uses this module too,
so it imports the package and its own neighbours only.
"""

from __future__ import annotations

import contextlib
import copy
import decimal
import functools
import io
import json
import math
import random
import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

import reasoning_gym

from .judges import FORMS, JUDGES

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

SIZE = 1000
"""Entries of one seed. Some datasets arrange their kinds of questions by it, so it is the same for all."""
STORED_ANSWERS = {"graph_color": "possible_answer", "rubiks_cube": "example_correct_answer"}
"""Metadata that holds a solution, by dataset, where the entry's own answer is empty."""
_MOST_DATASETS = 128
_SETS_OF_LETTERS = ("isomorphic_strings", "ransom_note")
"""Datasets that draw from a set of letters, whose order is another one in each process."""
_NO_NUMBER = re.compile(r"\b(?:nan|inf|infinity)[ij]?\b", re.IGNORECASE)
"""Words that Python reads as numbers, whose distance from the right one some scorers take for none."""


def make_entry(dataset: str, config: JsonObject, seed: int, index: int) -> JsonObject:
    """Return question, answer and metadata; the same for the same arguments.

    Raises whatever the package raises for a configuration that it does not accept, and IndexError.
    """
    if not 0 <= index < SIZE:
        raise IndexError(f"an index lies between 0 and {SIZE - 1}, not {index}")
    settings = json.dumps(config, sort_keys=True)
    with _apart(), _seeded(f"{dataset}/{settings}/{seed}/{index}"):
        entry: JsonObject = _dataset(dataset, settings, seed)[index]
    return entry


def oracle_answer(dataset: str, entry: JsonObject) -> str:
    """Return the answer that is stored with an entry; empty where there is none."""
    answer = entry["answer"]
    if dataset in STORED_ANSWERS:
        answer = entry["metadata"][STORED_ANSWERS[dataset]]
    if answer is None:
        return ""
    return answer.strip() if isinstance(answer, str) else json.dumps(answer)


def raw_score(dataset: str, config: JsonObject, seed: int, entry: JsonObject, answer: str) -> float:
    """Return the score of an answer between 0 and 1; one that makes the scorer raise has 0."""
    if dataset in JUDGES:
        return float(JUDGES[dataset](entry, answer))
    if _NO_NUMBER.search(answer) and not _NO_NUMBER.search(oracle_answer(dataset, entry)):
        return 0.0
    if dataset in FORMS and not FORMS[dataset](entry, answer):
        return 0.0
    scorer = _dataset(dataset, json.dumps(config, sort_keys=True), seed)
    try:
        with _apart():
            score = float(scorer.score_answer(answer, copy.deepcopy(entry)))
    except Exception:  # noqa: BLE001  # capture point: scorers raise anything on an odd answer
        return 0.0
    return min(1.0, max(0.0, score)) if math.isfinite(score) else 0.0


def is_answerable(dataset: str, config: JsonObject, seed: int, entry: JsonObject) -> bool:
    """Return whether the stored answer of an entry has the score 1, and an empty one has not."""
    answer = oracle_answer(dataset, entry)
    return (
        raw_score(dataset, config, seed, entry, answer) >= 1.0
        and raw_score(dataset, config, seed, entry, "") < 1.0
    )


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Keep what the package prints, and the precision that it sets for decimal numbers, from all others.

    decimal_arithmetic changes the precision of the whole process, which would change the answers of questions
    that are made later.
    """
    with decimal.localcontext(decimal.Context()), contextlib.redirect_stdout(io.StringIO()):
        yield


@contextlib.contextmanager
def _seeded(name: str) -> Iterator[None]:
    """Seed the random numbers of the whole process, which list_functions draws from, and restore them."""
    before = random.getstate()
    random.seed(name)
    try:
        yield
    finally:
        random.setstate(before)


class _OrderedLetters(frozenset[str]):
    """A set whose elements come in the order of the alphabet, whatever hash seed the process has."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))

    def __sub__(self, other: Set[str]) -> _OrderedLetters:  # type: ignore[override]
        return _OrderedLetters(super().__sub__(other))


@functools.lru_cache(maxsize=_MOST_DATASETS)
def _dataset(name: str, config: str, seed: int) -> Any:  # noqa: ANN401  # the package is not typed
    # Most datasets draw from ``seed + index``: seeds further apart than any index share no entry.
    made = reasoning_gym.create_dataset(name, seed=seed * SIZE, size=SIZE, **json.loads(config))
    if name in _SETS_OF_LETTERS:
        made.letters = _OrderedLetters(made.letters)
    return made
