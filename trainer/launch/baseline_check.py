"""Refuse a baseline that cannot be played, before a service is started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.config.counterpart import ModelServerCounterpart
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.config import EvaluationConfig, RolloutConfig


POLICIES = ("random", "reference", "empty")
"""Policies of ``sandbox-service run`` without a model."""
MODEL = "openai:"
"""Beginning of a policy that is a model behind a server."""


def check_baseline(policy: str, rollout: RolloutConfig, evaluation: EvaluationConfig) -> None:
    """Raise ConfigError for a name that no policy has, and for a run whose counterpart a baseline lacks."""
    if policy not in POLICIES and not policy.startswith(MODEL):
        raise ConfigError(f"unknown policy {policy!r}; choose {', '.join(POLICIES)} or {MODEL}MODEL@URL")
    counterpart = rollout.counterpart
    if counterpart is None or isinstance(counterpart, ModelServerCounterpart) or evaluation.params:
        return
    raise ConfigError(
        "the run's counterpart is its own policy, which a baseline does not have: choose one of the "
        "environment by evaluation.params, such as opponent='random'"
    )
