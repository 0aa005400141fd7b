"""Record the advantages that a run learned from: ``advantages.jsonl`` in its folder, for people to look at.

A line holds the advantages of a group at a step, by sample (an episode's id, with ``#N`` behind it for its
N-th segment), as runs of tokens with the same value: ``[[value, tokens], ...]``. A step that is trained once
more after a restart comes once more; the last line of a group counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainer.batches.exports import cut_torn

if TYPE_CHECKING:
    from trainer.types import FloatT, Sample


FILE = "advantages.jsonl"
_DIGITS = 6


class AdvantageRecord:
    """The file of one run, written by one process."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        cut_torn(self._file)

    def write(self, step: int, samples: Sequence[Sample]) -> None:
        """Add the samples that have advantages."""
        groups: dict[int, dict[str, list[tuple[float, int]]]] = defaultdict(dict)
        for sample in samples:
            if sample.advantages_T is not None:
                groups[sample.group][sample.id] = run_lengths(sample.advantages_T)
        with self._file.open("a", encoding="utf-8") as out:
            for group, found in groups.items():
                out.write(json.dumps({"group": group, "step": step, "advantages": found}) + "\n")


def run_lengths(values_T: FloatT) -> list[tuple[float, int]]:
    """Return values, rounded to six digits, each with the number of times that it stands in a row."""
    rounded_T = np.round(values_T.astype(np.float64), _DIGITS)
    begins = np.flatnonzero(np.diff(rounded_T, prepend=np.nan))
    lengths = np.diff(begins, append=len(rounded_T))
    return [(float(rounded_T[begin]), int(length)) for begin, length in zip(begins, lengths, strict=True)]
