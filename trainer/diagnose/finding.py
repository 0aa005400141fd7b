"""The result of a rule: what is wrong, the figures that show it, and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The weight of a finding."""

    PROBLEM = "problem"
    """The run does not learn what it should, or loses what it learned."""
    WARNING = "warning"
    """The run learns, and something costs it speed or may spoil it later."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a run."""

    severity: Severity
    sentence: str
    """The defect, with figures."""
    advice: tuple[str, ...]
    """Settings and steps to try, the likeliest first."""
    evidence: Mapping[str, float]
    """The figures, by name."""
