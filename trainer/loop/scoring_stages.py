"""Stages that train a reward model: the credit of their batches, and the note of their models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.advantage.score_credit import score_credit
from trainer.advantage.step_credit import step_credit
from trainer.config import ProcessRewardModelStageConfig, RewardModelStageConfig
from trainer.reward_models.note import RewardModelNote

if TYPE_CHECKING:
    from trainer.config import ScoringStageConfig
    from trainer.types import Batch


def scored_credit(batch: Batch, config: ScoringStageConfig) -> Batch:
    """Return an annotated batch with advantages and metrics, by the loss of the stage's kind."""
    if isinstance(config, ProcessRewardModelStageConfig):
        return step_credit(batch, config.dimensions)
    assert isinstance(config, RewardModelStageConfig), "there are two kinds"
    return score_credit(batch, config)


def note_of(config: ScoringStageConfig, metrics: Mapping[str, float]) -> RewardModelNote:
    """Return the description of a stage's model, without its tokenizer."""
    if isinstance(config, ProcessRewardModelStageConfig):
        return RewardModelNote(kind="process", dimensions=config.dimensions, read_at="stop_token")
    return RewardModelNote(
        mean=metrics["pairs/mean"], deviation=metrics["pairs/deviation"] or 1.0, read_at="stop_token"
    )
