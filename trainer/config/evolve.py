"""Settings of AgentEvol: exploration, selection, training and the decision of each iteration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sandbox_settings import Branch, Positive, Seconds, Share

from .learner import OptimizerConfig

Temperature = Annotated[float, Field(gt=0)]


class ExploreConfig(Branch):
    """Episodes that the current model plays on training tasks."""

    tasks: Positive = 64
    """Tasks of an iteration. Each iteration takes them in another order from those of ``tasks``."""
    episodes: Positive = 4
    """Episodes of each task."""
    temperatures: tuple[Temperature, ...] = ()
    """Sampling temperatures, which the episodes of a task take in turn; ``rollout.sampling.temperature`` when
    empty."""
    timeout_s: Seconds = 14_400.0
    """Time limit of one exploration; ``rollout.stall_timeout_s`` ends it sooner without progress."""


class EpisodeSelectionConfig(Branch):
    """Explored episodes that are trained on. The rules apply in the order of the settings."""

    threshold: float | None = 1.0
    """Least value of an episode; none without."""
    rejection: Annotated[float, Field(gt=0)] | None = None
    """Temperature of statistical rejection sampling (Liu et al. 2024): an episode of value v is kept with the
    probability exp((v - greatest value of its task) / temperature)."""
    distinct: bool = True
    """Of episodes of a task with the same turns, keep one."""
    per_task: Positive | None = None
    """Keep at most so many episodes of each task, the best ones."""
    top_share: Annotated[Share, Field(gt=0)] = 1.0
    """Keep this share of the remaining episodes, the best ones."""


class EvolveTrainingConfig(Branch):
    """Supervised fine-tuning on the selected episodes, an ordinary run of the worker group."""

    start: Literal["base", "current"] = "base"
    """base: the model of the run file, before its warm start, as AgentEvol does. current: the model that
    explored.
    """
    demonstrations: bool = True
    """Also train on the played demonstrations of ``warm_start``."""
    earlier: bool = False
    """Also train on the selected episodes of earlier iterations that were kept."""
    epochs: Annotated[float, Field(gt=0)] = 3.0
    """Passes over the episodes."""
    batch: Positive = 32
    """Episodes per step."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=10)


class EvolveConfig(Branch):
    """AgentEvol (Xi et al. 2024): explore, select, train, evaluate, keep or roll back; and again."""

    iterations: Positive = 3
    """Greatest number of iterations."""
    patience: Positive | None = None
    """End after so many iterations in a row that were rolled back."""
    explore: ExploreConfig = ExploreConfig()
    select: EpisodeSelectionConfig = EpisodeSelectionConfig()
    train: EvolveTrainingConfig = EvolveTrainingConfig()
    keep: Literal["better", "higher", "not_worse", "always"] = "not_worse"
    """The condition for keeping a model, by its held-out success minus that of the model kept so far, with a
    95% interval by paired bootstrap. better: the whole interval is above 0. higher: the difference is above
    0. not_worse: unless the whole interval is below 0. always: no condition.
    """
