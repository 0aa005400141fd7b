"""Settings of selection: which recorded episodes are learned from, with which weight, and in which pairs."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from sandbox_settings import Branch, Count, NonNegative, Positive, Share

Measure: TypeAlias = Literal["score", "return", "process", "success"]
"""A number by which episodes are compared: the grade, the sum of the step rewards, their mean, or 1 for
solved and 0 for not."""
Temperature: TypeAlias = Annotated[float, Field(gt=0)]


class QualityConfig(Branch):
    """Filters that look at an episode's form, not at its result."""

    min_turns: Positive = 1
    """Least number of turns."""
    max_turns: Positive | None = None
    """Greatest number of turns."""
    max_chars: Positive | None = None
    """Greatest number of characters of all messages."""
    max_empty_turns: Count = 0
    """Turns without text and tool calls that an episode may have."""
    max_format_errors: Count | None = None
    """Turns without a well-formed action that an episode may have, where the file counts them."""
    truncated: bool = True
    """Keep episodes that a limit cut off."""
    failures: tuple[str, ...] = ()
    """Failure classes whose episodes are kept, such as ``agent``; those of all other classes are dropped."""


class AllEpisodes(Branch):
    """Keep every episode."""

    kind: Literal["all"] = "all"


class ThresholdRule(Branch):
    """Keep episodes that reach a value (filtered behaviour cloning)."""

    kind: Literal["threshold"] = "threshold"
    least: float = 1.0
    """Least value."""


class TopShareRule(Branch):
    """Keep the best share, at least one episode."""

    kind: Literal["top_share"] = "top_share"
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the episodes."""
    within: Literal["all", "task"] = "all"
    """Take the share of all episodes, or of each task's."""


class PercentileRule(Branch):
    """Keep episodes between two percentiles of the values, both included."""

    kind: Literal["percentiles"] = "percentiles"
    low: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Lower percentile."""
    high: Annotated[float, Field(ge=0, le=100)] = 100.0
    """Upper percentile."""

    @model_validator(mode="after")
    def _is_a_range(self) -> PercentileRule:
        if self.low > self.high:
            raise ValueError(f"the range is empty: low={self.low:g} is above high={self.high:g}")
        return self


class RankingRule(Branch):
    """Rank each task's episodes, and keep the best ones (trajectory ranking)."""

    kind: Literal["ranking"] = "ranking"
    best: Positive = 1
    """Episodes of a task; of equal ones, those that come first in the files."""


SelectionRule: TypeAlias = Annotated[
    AllEpisodes | ThresholdRule | TopShareRule | PercentileRule | RankingRule, Field(discriminator="kind")
]


class KeepDuplicates(Branch):
    """Keep duplicates."""

    kind: Literal["none"] = "none"


class ExactDuplicates(Branch):
    """Of episodes with the same messages keep the best one."""

    kind: Literal["exact"] = "exact"


class NearDuplicates(Branch):
    """Of a task's episodes whose turns have nearly the same words keep the best one."""

    kind: Literal["near"] = "near"
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Jaccard similarity of the sets of n-grams from which on two episodes are duplicates."""
    words: Positive = 5
    """Words of an n-gram."""


DeduplicationConfig: TypeAlias = Annotated[
    KeepDuplicates | ExactDuplicates | NearDuplicates, Field(discriminator="kind")
]


class RecordedWeights(Branch):
    """Keep the weights in the files, which are 1 where a file has none."""

    kind: Literal["recorded"] = "recorded"


class UniformWeights(Branch):
    """Give every episode the weight 1."""

    kind: Literal["uniform"] = "uniform"


class SoftmaxWeights(Branch):
    """Weigh episodes by the softmax of their values (reward-weighted behaviour cloning)."""

    kind: Literal["softmax"] = "softmax"
    temperature: Temperature = 1.0
    """Divisor of the values: small ones prefer the best episodes, great ones make weights equal."""
    within: Literal["all", "task"] = "all"
    """Normalize over all episodes, or over those of each task, so that every task counts alike."""


class RankWeights(Branch):
    """Weigh a task's episodes by their rank: of n episodes the best counts n times as much as the worst."""

    kind: Literal["rank"] = "rank"


WeightsConfig: TypeAlias = Annotated[
    RecordedWeights | UniformWeights | SoftmaxWeights | RankWeights, Field(discriminator="kind")
]


class SelectionConfig(Branch):
    """Selection of recorded episodes: quality, then duplicates, then the rule, then weights."""

    by: Measure = "score"
    """Value by which episodes are compared. score: the grade. return: the sum of the step rewards. process:
    their mean. success: 1 for solved, 0 otherwise."""
    quality: QualityConfig = QualityConfig()
    deduplicate: DeduplicationConfig = KeepDuplicates()
    rule: SelectionRule = AllEpisodes()
    weights: WeightsConfig = RecordedWeights()


class PairsConfig(Branch):
    """Preferences between episodes of one task."""

    kind: Literal["best_worst", "all"] = "best_worst"
    """best_worst: the best episode of a task against the worst. all: every two episodes that are far enough
    apart, those furthest apart first."""
    by: Measure = "score"
    """Value by which episodes are compared, as in a selection."""
    margin: NonNegative = 0.0
    """Least difference of the two values; equal episodes are never a pair."""
    per_task: Positive = 8
    """Most pairs of one task."""


class LabelsConfig(Branch):
    """Labels of episodes for learning without pairs (KTO)."""

    by: Measure = "score"
    """Value by which episodes are labelled, as in a selection."""
    least: float = 1.0
    """Least value of a wanted episode."""


class DecontaminationConfig(Branch):
    """Overlap of recorded data with evaluation tasks."""

    words: Positive = 13
    """Words of an n-gram; a shorter task counts as a whole."""
    share: Share = 0.0
    """An episode is contaminated if more than this share of a task's n-grams occurs in it."""
