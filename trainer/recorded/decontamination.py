"""Find recorded episodes that overlap with evaluation tasks, by id, by split and by n-grams of words.

The check by n-grams is that of GPT-3 (Brown et al. 2020, arXiv:2005.14165, appendix C). N-grams
of many evaluation tasks, such as an environment's instructions, say nothing about a task and are left aside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.config.evaluation_splits import evaluation_splits

from .similarity import ngrams, words_of

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class Contaminated:
    """One recorded episode or preference that overlaps with an evaluation task."""

    record: RecordedEpisode | Preference
    task: str
    """The evaluation task's name, or the split that the episode itself names."""
    share: float
    """Share of the task's n-grams that occur in the record; 1 where it names the task or its split."""


class EvaluationTasks:
    """The n-grams of evaluation tasks, to look up recorded texts in."""

    def __init__(self, tasks: Sequence[EvaluationTask], config: DecontaminationConfig) -> None:
        self._config = config
        self._names = {task.name for task in tasks}
        self._short = {
            task.name: " ".join(words)
            for task in tasks
            if 0 < len(words := words_of(task.text)) < config.words
        }
        grams = {task.name: ngrams(task.text, config.words) for task in tasks if task.name not in self._short}
        seen = Counter(gram for each in grams.values() for gram in each)
        bound = max(3, math.ceil(_COMMON * len(tasks)))
        self._own = {name: frozenset(g for g in each if seen[g] < bound) for name, each in grams.items()}
        self._tasks_of: dict[int, list[str]] = {}
        for name, each in self._own.items():
            for gram in each:
                self._tasks_of.setdefault(gram, []).append(name)

    def __len__(self) -> int:
        return len(self._names)

    def overlap(self, record: RecordedEpisode | Preference) -> Contaminated | None:
        """Return the evaluation task that a record overlaps with most; None where no overlap is too great."""
        split = getattr(record, "split", "")
        if split and evaluation_splits(record.environment, (split,)):
            return Contaminated(record, f"split {split}", 1.0)
        if record.task_id and record.task_id in self._names:
            return Contaminated(record, record.task_id, 1.0)
        text = _text_of(record)
        shares = self._overlaps(text)
        said = f" {' '.join(words_of(text))} "
        shares |= {name: 1.0 for name, short in self._short.items() if f" {short} " in said}
        name, share = max(shares.items(), key=lambda item: item[1], default=("", 0.0))
        return Contaminated(record, name, share) if share > self._config.share else None

    def _overlaps(self, text: str) -> dict[str, float]:
        grams = ngrams(text, self._config.words)
        hits = Counter(name for gram in grams for name in self._tasks_of.get(gram, ()))
        return {name: count / len(self._own[name]) for name, count in hits.items()}


def find_contaminated(
    records: Sequence[RecordedEpisode | Preference], tasks: EvaluationTasks
) -> tuple[Contaminated, ...]:
    """Return the records that overlap with evaluation tasks, in order."""
    return tuple(found for record in records if (found := tasks.overlap(record)) is not None)


def _text_of(record: RecordedEpisode | Preference) -> str:
    """Return all text but the system's, which is the same for all tasks of an environment."""
    parts = ("messages",) if hasattr(record, "messages") else ("prompt", "chosen", "rejected")
    messages: list[Message] = [message for part in parts for message in getattr(record, part)]
    return "\n".join(message.content or "" for message in messages if message.role != "system")
