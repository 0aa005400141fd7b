"""Record the advantages that a run learned from: ``advantages.jsonl`` in its folder, for people to look at.

A line holds the advantages of a group at a step, by sample (an episode's id, with ``#N`` behind it for its
N-th segment), as runs of tokens with the same value: ``[[value, tokens], ...]``. A step that is trained once
more after a restart comes once more; the last line of a group counts.

``log_ratios`` and ``entropies`` have a value for each trained token of a sample, in order, as base64 of
little-endian 16-bit floats: the learner's log-probability before the update minus the engine's, and the
entropy of the learner's distribution when the update first came to the sample. The difference is recorded
and not its terms because 16 bits hold it more precisely.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainer.appended_lines import cut_torn_line

if TYPE_CHECKING:
    from trainer.types import FloatT, Sample


FILE = "advantages.jsonl"
_DIGITS = 6
_GREATEST = float(np.finfo(np.float16).max)


class AdvantageRecord:
    """The file of one run, written by one process."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        cut_torn_line(self._file)

    def write(self, step: int, samples: Sequence[Sample]) -> None:
        """Add the samples that have advantages."""
        groups: dict[int, list[Sample]] = defaultdict(list)
        for sample in samples:
            if sample.advantages_T is not None:
                groups[sample.group].append(sample)
        with self._file.open("a", encoding="utf-8") as out:
            for group, found in groups.items():
                out.write(json.dumps({"group": group, "step": step, **_columns(found)}) + "\n")


def _columns(samples: Sequence[Sample]) -> dict[str, dict[str, object]]:
    """Return the columns of a line by their names, each by sample; empty ones are left out."""
    columns: dict[str, dict[str, object]] = {"advantages": {}, "log_ratios": {}, "entropies": {}}
    for sample in samples:
        if sample.advantages_T is not None:
            columns["advantages"][sample.id] = run_lengths(sample.advantages_T)
        # The engine's log-probabilities are complete only where the update has returned them.
        if sample.entropy_T is not None and sample.old_logprobs_T is not None:
            gap_T = sample.old_logprobs_T - sample.logprobs_T
            columns["log_ratios"][sample.id] = half_floats(gap_T[sample.mask_T])
            columns["entropies"][sample.id] = half_floats(sample.entropy_T[sample.mask_T])
    return {name: column for name, column in columns.items() if column}


def half_floats(values_T: FloatT) -> str:
    """Return values as base64 of little-endian 16-bit floats; those beyond their range become its bounds."""
    return b64encode(np.clip(values_T, -_GREATEST, _GREATEST).astype("<f2").tobytes()).decode()


def run_lengths(values_T: FloatT) -> list[tuple[float, int]]:
    """Return values, rounded to six digits, each with the number of times that it stands in a row."""
    rounded_T = np.round(values_T.astype(np.float64), _DIGITS)
    begins = np.flatnonzero(np.diff(rounded_T, prepend=np.nan))
    lengths = np.diff(begins, append=len(rounded_T))
    return [(float(rounded_T[begin]), int(length)) for begin, length in zip(begins, lengths, strict=True)]
