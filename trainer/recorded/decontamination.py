"""Find recorded episodes that overlap with evaluation tasks, by id, by split and by n-grams of words.

The check by n-grams is that of GPT-3 (Brown et al. 2020, arXiv:2005.14165, appendix C). N-grams
of many evaluation tasks, such as an environment's instructions, say nothing about a task and are left aside;
a task that has no others, and one that is shorter than an n-gram, is looked for as a whole.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.config.evaluation_splits import evaluation_splits

from .similarity import ngrams, words_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.messages import Message
    from trainer.config.selection import DecontaminationConfig

    from .types import Preference, RecordedEpisode

_COMMON = 0.1
"""An n-gram of more than this share of the evaluation tasks, and of three at least, is an instruction."""


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """One task of an evaluation split, as text."""

    name: str
    """Its id, for messages to people."""
    text: str
    """Its question, without the reference."""
    environment: str = ""
    """The environment that has it; empty where the file does not say."""


@dataclass(frozen=True, slots=True)
class Contaminated:
    """One recorded episode or preference that overlaps with an evaluation task."""

    record: RecordedEpisode | Preference
    task: str
    """The evaluation task's name, or the split that the episode itself names."""
    share: float
    """Share of the task's n-grams that occur in the record; 1 where it names the task or its split."""


class EvaluationTasks:
    """The n-grams of evaluation tasks, to look up recorded texts in.

    Tasks are identified by their words, not by their ids: several files may use the same ids.
    """

    def __init__(self, tasks: Sequence[EvaluationTask], config: DecontaminationConfig) -> None:
        self._config = config
        self._count = len(tasks)
        self._environments: dict[str, set[str]] = {}
        for task in tasks:
            self._environments.setdefault(task.name, set()).add(task.environment)
        texts: dict[tuple[str, ...], str] = {}
        for task in tasks:
            texts.setdefault(tuple(words_of(task.text)), task.name)
        self._names = list(texts.values())
        every = [" ".join(words) for words in texts]
        self._short = {
            place: every[place] for place, words in enumerate(texts) if 0 < len(words) < config.words
        }
        grams = {
            place: ngrams(text, config.words) for place, text in enumerate(every) if place not in self._short
        }
        seen = Counter(gram for each in grams.values() for gram in each)
        bound = max(3, math.ceil(_COMMON * len(texts)))
        self._own = {place: frozenset(g for g in each if seen[g] < bound) for place, each in grams.items()}
        self._tasks_of: dict[int, list[int]] = {}
        for place, each in self._own.items():
            for gram in each:
                self._tasks_of.setdefault(gram, []).append(place)
        common = {place: every[place] for place, each in grams.items() if each and not self._own[place]}
        self._common = _by_rarest(common, grams, seen)

    def __len__(self) -> int:
        return self._count

    def overlap(self, record: RecordedEpisode | Preference) -> Contaminated | None:
        """Return the evaluation task that a record overlaps with most; None where no overlap is too great."""
        split = getattr(record, "split", "")
        if split and evaluation_splits(record.environment, (split,)):
            return Contaminated(record, f"split {split}", 1.0)
        if self._is_named(record):
            return Contaminated(record, record.task_id, 1.0)
        text = _text_of(record)
        grams = ngrams(text, self._config.words)
        common = (each for gram in grams for each in self._common.get(gram, ()))
        said = f" {' '.join(words_of(text))} "
        shares = self._overlaps(grams)
        shares |= {place: 1.0 for place, task in (*self._short.items(), *common) if f" {task} " in said}
        place, share = max(shares.items(), key=lambda item: item[1], default=(0, 0.0))
        return Contaminated(record, self._names[place], share) if share > self._config.share else None

    def _is_named(self, record: RecordedEpisode | Preference) -> bool:
        """Return whether the record has the id of an evaluation task, in the same environment.

        Where one of the two names no environment, ids that only count say nothing.
        """
        environments = self._environments.get(record.task_id, set()) if record.task_id else set()
        if record.environment and record.environment in environments:
            return True
        unknown = bool(environments) if not record.environment else "" in environments
        return unknown and not record.task_id.isdecimal()

    def _overlaps(self, grams: Iterable[int]) -> dict[int, float]:
        hits = Counter(place for gram in grams for place in self._tasks_of.get(gram, ()))
        return {place: count / len(self._own[place]) for place, count in hits.items()}


def find_contaminated(
    records: Sequence[RecordedEpisode | Preference], tasks: EvaluationTasks
) -> tuple[Contaminated, ...]:
    """Return the records that overlap with evaluation tasks, in order."""
    return tuple(found for record in records if (found := tasks.overlap(record)) is not None)


def _by_rarest(
    tasks: Mapping[int, str], grams: Mapping[int, frozenset[int]], seen: Mapping[int, int]
) -> dict[int, list[tuple[int, str]]]:
    """Return tasks, with their places, under the n-gram of theirs that the fewest tasks have."""
    found: dict[int, list[tuple[int, str]]] = {}
    for place, text in tasks.items():
        rarest = min(grams[place], key=lambda gram: seen[gram])
        found.setdefault(rarest, []).append((place, text))
    return found


def _text_of(record: RecordedEpisode | Preference) -> str:
    """Return all text but the system's, which is the same for all tasks of an environment."""
    parts = ("messages",) if hasattr(record, "messages") else ("prompt", "chosen", "rejected")
    messages: list[Message] = [message for part in parts for message in getattr(record, part)]
    return "\n".join(text for message in messages if message.role != "system" for text in _texts_of(message))


def _texts_of(message: Message) -> Iterator[str]:
    """Yield what a message thinks and says, and the arguments of its calls, which may be programs."""
    yield message.reasoning_content or message.reasoning or ""
    yield message.content or ""
    for call in message.tool_calls or ():
        yield from _texts_in(call.function.arguments)


def _texts_in(arguments: JsonValue) -> Iterator[str]:
    """Yield the texts in a call's arguments, decoded: the escapes of JSON would be parts of words."""
    waiting = [_decoded(arguments)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [part for pair in reversed(value.items()) for part in reversed(pair)]
        elif isinstance(value, list):
            waiting += reversed(value)
        elif value is not None:
            yield str(value)


def _decoded(arguments: JsonValue) -> JsonValue:
    if not isinstance(arguments, str):
        return arguments
    try:
        value: JsonValue = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    return value
