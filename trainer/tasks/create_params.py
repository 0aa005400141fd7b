"""The parameters of create requests: the one rule for the episodes of training, evaluation and warm start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainer.config import RolloutConfig, TasksConfig


def create_params(
    rollout: RolloutConfig,
    tasks: TasksConfig,
    source: str,
    own: Mapping[str, JsonValue] | None = None,
) -> dict[str, JsonValue]:
    """Return the parameters that instances of a source's tasks are created with. Later ones take precedence.

    Args:
        rollout: has those of all episodes.
        tasks: has those of each source.
        source: the source's name, as ``TaskRef.source``; empty in a run of one environment.
        own: those of a kind of episode, such as ``evaluation.params``.
    """
    of_source = next((each.params for each in tasks.sources if each.key == source), {})
    return {**rollout.params, **of_source, **(own or {})}
