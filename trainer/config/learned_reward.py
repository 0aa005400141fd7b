"""Settings of rewards by trained models: of whole episodes, and of their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from sandbox_settings import Branch, NonNegative, Positive, Seconds, Share

STAGE = "stage:"
"""Beginning of the name of a model that a stage of the run trains."""
STAGE_MODELS = "reward_models"
"""Folder in the run's folder with the models that its stages train, by the stages' names."""
URL_BEGINNINGS = ("http://", "https://")
"""Beginnings of the names of served models."""


class AlarmConfig(Branch):
    """The alarm when learned and true reward part."""

    window: Positive = 10
    """Steps that are looked at together."""
    least_correlation: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Least mean rank correlation of learned reward and the environment's score over the window."""
    action: Literal["warn", "stop"] = "warn"
    """warn: a warning in the log, and ``reward/learned_alarm`` or ``reward/process_alarm`` is 1. stop: the
    run ends, too.
    """


def _located(model: str) -> str:
    """Return URLs and stages unchanged, and the absolute path of a folder, for processes elsewhere."""
    return model if model.startswith((STAGE, *URL_BEGINNINGS)) else str(Path(model).expanduser().absolute())


class LearnedRewardConfig(Branch):
    """The reward of a model of whole episodes, or of an ensemble."""

    models: Annotated[tuple[Annotated[str, AfterValidator(_located)], ...], Field(min_length=1)]
    """Folders of reward models, URLs of served ones (``http://...``), or ``stage:NAME`` for the one that a
    stage of kind ``reward_model`` trains, or ``process_reward_model`` for a model of steps; several are an
    ensemble.
    """
    weight: float = 1.0
    """Weight in the reward."""
    reads: Literal["tokens", "text"] = "tokens"
    """tokens: the sampled tokens; the reward model needs the policy's tokenizer. text: the messages, rendered
    by the reward model's own chat template.
    """
    normalize: bool = True
    """Subtract the mean of the model's scores on its training data, and divide by their deviation."""
    bound: Literal["mean", "min", "deviations"] = "deviations"
    """The score of an ensemble. min: the least score. deviations: the mean minus ``deviations`` standard
    deviations over the models.
    """
    deviations: NonNegative = 2.0
    """Number of those standard deviations."""
    least: float | None = None
    """Lower cap of the learned reward, before its weight."""
    most: float | None = None
    """Upper cap of the learned reward, before its weight."""
    timeout_s: Seconds = 120.0
    """Deadline of scoring one episode, which begins when the model takes it up; the wait behind others does
    not count.
    """
    api_key_variable: str = "REWARD_MODEL_API_KEY"
    """Environment variable with the key of served models; a server without keys needs none."""
    alarm: AlarmConfig = AlarmConfig()

    @model_validator(mode="after")
    def _has_room(self) -> LearnedRewardConfig:
        if self.least is not None and self.most is not None and self.least >= self.most:
            raise ValueError("least is not below most, so that every episode has the same learned reward")
        return self


class RefreshConfig(Branch):
    """Updates of the models of steps while the policy moves, on its latest episodes."""

    every: Positive = 10
    """Steps between refreshes."""
    episodes: Positive = 64
    """The latest episodes that a refresh learns from."""
    updates: Positive = 8
    """Updates of a refresh."""
    batch: Positive = 16
    """Segments of episodes in an update."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    """Learning rate of AdamW."""
    discount: Annotated[Share, Field(gt=0)] = 1.0
    """Labels of steps are the outcome, times this factor for each step that follows."""
    dimension: str = "correctness"
    """The dimension that is trained."""


class ProcessRewardConfig(LearnedRewardConfig):
    """The reward of each step by a process reward model; caps are those of a step."""

    normalize: Literal[False] = False
    """A process reward model gives probabilities, which are not normalized."""
    dimensions: Annotated[dict[str, float], Field(min_length=1)] = {"correctness": 1.0}
    """Weights of the model's dimensions."""
    baseline: float = 0.0
    """Subtracted from each step's reward: a step that is worth less costs."""
    refresh: RefreshConfig | None = None

    @model_validator(mode="after")
    def _can_be_refreshed(self) -> ProcessRewardConfig:
        if self.refresh is not None and any(name.startswith(URL_BEGINNINGS) for name in self.models):
            raise ValueError("refresh trains models in the run: name folders or stages, no served models")
        if self.refresh is not None and len(set(self.models)) < len(self.models):
            raise ValueError("refresh needs different models: two members have one name")
        return self
