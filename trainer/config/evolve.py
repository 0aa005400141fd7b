"""Settings of AgentEvol: exploration, selection, training and the decision of each iteration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from sandbox_settings import Branch, NonNegative, Positive, Seconds, Share

from .learner import OptimizerConfig
from .preferences import DpoLoss, PreferenceLossConfig
from .reward import JudgeConfig
from .rollout import ReflectionConfig

FeedbackName: TypeAlias = Literal["environment", "reward", "judge", "people"]
Temperature: TypeAlias = Annotated[float, Field(gt=0)]


class ExploreConfig(Branch):
    """Episodes that the current model plays on training tasks."""

    tasks: Positive = 64
    """Tasks of an iteration. Each iteration takes them in another order from those of ``tasks``."""
    episodes: Positive = 4
    """Episodes of each task."""
    temperatures: tuple[Temperature, ...] = ()
    """Sampling temperatures, which the episodes of a task take in turn; ``rollout.sampling.temperature`` when
    empty."""
    reflection: ReflectionConfig | None = None
    """Play episodes that were not solved once more, with the model's reflection on the failure in the prompt,
    and keep the better attempt. The reflection is no part of the text that is trained on.
    """
    timeout_s: Seconds = 14_400.0
    """Time limit of one exploration; ``rollout.stall_timeout_s`` ends it sooner without progress."""


class FeedbackConfig(Branch):
    """Sources of feedback on explored episodes, and their aggregation to the value that selects."""

    sources: Annotated[tuple[FeedbackName, ...], Field(min_length=1)] = ("environment",)
    """environment: its score. reward: the outcome by the function or judge of the run's ``reward``, and the
    scores of its reward models, each with its weight. judge: a model that grades by a rubric. people: a file
    that people write.
    """
    aggregate: Literal["mean", "min", "weighted", "first"] = "mean"
    """mean, min and weighted need the feedback of all sources, and an episode without it is not selected.
    first: the first source that has feedback on the episode.
    """
    weights: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Weights of the sources, for ``weighted``; 1 by default."""
    judge: JudgeConfig = JudgeConfig()
    """The judge; its scores are scaled to 0 to 1."""
    people: Path | None = None
    """JSONL of ``{"id": ..., "score": ...}`` or ``{"id": ..., "label": "good"}``, each with an optional
    ``comment``; relative to the working folder. The evolution stops while rows of an iteration are missing,
    and continues with ``--resume``.
    """

    @model_validator(mode="after")
    def _is_complete(self) -> FeedbackConfig:
        if len(set(self.sources)) < len(self.sources):
            raise ValueError("sources has a source twice")
        if unknown := sorted(self.weights.keys() - set(self.sources)):
            raise ValueError(f"weights has {', '.join(unknown)}, which sources has not")
        if "people" in self.sources and self.people is None:
            raise ValueError("the source people needs people=FILE")
        if "judge" in self.sources:
            missing = "model" if not self.judge.model else ""
            if not self.judge.rubric and self.judge.rubric_file is None:
                missing = missing or "rubric"
            if missing:
                raise ValueError(f"the source judge needs judge.{missing}")
        return self


class EpisodeSelectionConfig(Branch):
    """Explored episodes that are trained on. The rules apply in the order of the settings."""

    threshold: float | None = 1.0
    """Least value of an episode, by ``feedback``; no limit without."""
    rejection: Annotated[float, Field(gt=0)] | None = None
    """Temperature of statistical rejection sampling (Liu et al. 2024): an episode of value v is kept with the
    probability exp((v - greatest value of its task) / temperature)."""
    distinct: bool = True
    """Of episodes of a task with the same turns, keep one."""
    per_task: Positive | None = None
    """Keep at most so many episodes of each task, the best ones."""
    top_share: Annotated[Share, Field(gt=0)] = 1.0
    """Keep this share of the remaining episodes, the best ones."""


class EvolveSft(Branch):
    """Supervised fine-tuning on the selected episodes, all with the same weight, as AgentEvol does."""

    kind: Literal["sft"] = "sft"


class EvolveWeighted(Branch):
    """Supervised fine-tuning on the selected episodes, weighted by the softmax of their values."""

    kind: Literal["weighted"] = "weighted"
    temperature: Temperature = 1.0
    """Divisor of the values: small ones prefer the best episodes, great ones make weights equal."""


class EvolvePreferences(Branch):
    """A preference loss on pairs of explored episodes of one task, in place of selected ones."""

    kind: Literal["preferences"] = "preferences"
    loss: PreferenceLossConfig = DpoLoss()
    pairs: Literal["best_worst", "all"] = "best_worst"
    """best_worst: the best episode of a task against the worst. all: every two episodes that are far enough
    apart, those furthest apart first."""
    margin: NonNegative = 0.0
    """Least difference of the values of a pair; equal ones are never a pair."""
    per_task: Positive = 8
    """Most pairs of one task."""
    desirable: float = 1.0
    """Least value of a desirable episode, for ``kto``, which learns from single episodes."""


EvolveMethod: TypeAlias = Annotated[
    EvolveSft | EvolveWeighted | EvolvePreferences, Field(discriminator="kind")
]


class EvolveTrainingConfig(Branch):
    """Training on the explored episodes, an ordinary run of the worker group."""

    method: EvolveMethod = EvolveSft()
    start: Literal["base", "current"] = "base"
    """base: the model of the run file, before its warm start, as AgentEvol does. current: the model that
    explored.
    """
    demonstrations: bool = True
    """Also train on the played demonstrations of ``warm_start``."""
    earlier: bool = False
    """Also train on the selected episodes of earlier iterations that were kept."""
    epochs: Annotated[float, Field(gt=0)] = 3.0
    """Passes over the episodes or pairs."""
    batch: Positive = 32
    """Episodes or pairs per step."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=10)

    @model_validator(mode="after")
    def _has_a_start(self) -> EvolveTrainingConfig:
        if not isinstance(self.method, EvolvePreferences):
            return self
        if self.start == "base":
            raise ValueError(
                "method preferences moves the model that explored: set evolve.train.start=current (a "
                "preference loss teaches nothing that the model does not do already)"
            )
        if self.earlier:
            raise ValueError("earlier adds episodes, and method preferences learns from those explored now")
        return self


class EvolveConfig(Branch):
    """AgentEvol (Xi et al. 2024): explore, select, train, evaluate, keep or roll back; and again."""

    iterations: Positive = 3
    """Greatest number of iterations."""
    patience: Positive | None = None
    """End after so many iterations in a row that were rolled back."""
    explore: ExploreConfig = ExploreConfig()
    feedback: FeedbackConfig = FeedbackConfig()
    select: EpisodeSelectionConfig = EpisodeSelectionConfig()
    train: EvolveTrainingConfig = EvolveTrainingConfig()
    keep: Literal["better", "higher", "not_worse", "always"] = "not_worse"
    """The condition for keeping a model, by its held-out success minus that of the model kept so far, with a
    95% interval by paired bootstrap. better: the whole interval is above 0. higher: the difference is above
    0. not_worse: unless the whole interval is below 0. always: no condition.
    """
