"""Apply all rules to a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from . import policy_rules, reward_rules, rollout_rules
from .finding import Severity
from .record import LEAST_STEPS, read_record

if TYPE_CHECKING:
    from .finding import Finding
    from .record import RunRecord


Rule: TypeAlias = "Callable[[RunRecord], Finding | None]"

RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        rollout_rules.infrastructure_failures,
        reward_rules.no_success,
        reward_rules.reward_collapsed,
        reward_rules.held_out_fell,
        rollout_rules.format_errors,
        reward_rules.flat_groups,
        policy_rules.entropy_collapsed,
        policy_rules.entropy_exploded,
        policy_rules.kl_high,
        policy_rules.clip_share_high,
        policy_rules.gradient_unstable,
        rollout_rules.engine_mismatch,
        rollout_rules.length_growth,
        rollout_rules.cut_off,
        rollout_rules.stale_rollouts,
        rollout_rules.tokenization_drift,
        reward_rules.reward_stalled,
        policy_rules.warm_start_stalled,
    )
}
"""Rules by name, causes before their consequences."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about a run."""

    name: str
    steps: int
    """Steps of reinforcement learning with metrics."""
    findings: dict[str, Finding]
    """By rule, problems before warnings, in the order of the rules."""

    @property
    def problems(self) -> int:
        """The number of problems."""
        return sum(finding.severity is Severity.PROBLEM for finding in self.findings.values())

    @property
    def too_short(self) -> bool:
        """Whether the run has too few steps for rules about the course of a metric."""
        return self.steps < LEAST_STEPS

    def tree(self) -> dict[str, object]:
        """Return the diagnosis as JSON."""
        return {**asdict(self), "problems": self.problems, "too_short": self.too_short}


def diagnose(record: RunRecord) -> Diagnosis:
    """Return all findings about a run."""
    found = {name: finding for name, rule in RULES.items() if (finding := rule(record)) is not None}
    ordered = sorted(found, key=lambda name: found[name].severity is not Severity.PROBLEM)
    return Diagnosis(
        record.run.name,
        sum("time/update" in metrics for metrics in record.run.learning.values()),
        {name: found[name] for name in ordered},
    )


def diagnose_folder(folder: Path) -> Diagnosis:
    """Return all findings about the run in a folder. Raises DataError when it is not a run's."""
    return diagnose(read_record(folder))
