"""The warm start before reinforcement learning, and evaluation beside it."""

from __future__ import annotations

from sandbox_settings import Branch, Count, InputFile, NonNegative, Positive, Seconds, Share

from .learner import OptimizerConfig

__all__ = ["EvaluationConfig", "WarmStartConfig"]


class WarmStartConfig(Branch):
    """Supervised learning from demonstrations that are played in the sandbox."""

    demonstrations: InputFile
    """JSONL of ``{"task_id": ..., "messages": [assistant messages]}``, as ``sandbox-service envs references``
    and ``sandbox-trainer demonstrations`` write it."""
    limit: Positive | None = None
    """Only the first so many."""
    steps: Positive = 200
    batch: Positive = 32
    """Demonstrations a step."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=20)
    keep_failures: bool = False
    """Imitate demonstrations that did not solve their task as well."""
    spoilt: Share = 0.0
    """Share of demonstrations that are spoilt on purpose, which leaves something to learn afterwards: for
    demos and tests with models that know nothing."""
    concurrency: Positive = 64
    """Demonstrations played at a time."""
    timeout_s: Seconds = 14_400.0
    """For playing all demonstrations; ``rollout.stall_timeout_s`` ends it sooner when nothing moves."""


class EvaluationConfig(Branch):
    """Success on tasks that are not trained on."""

    splits: tuple[str, ...] = ()
    """None: no evaluation."""
    limit: Positive | None = None
    """Only the first so many tasks."""
    episodes: Positive = 1
    """Episodes a task."""
    temperature: NonNegative = 1.0
    every: Count = 0
    """Steps between evaluations; 0: before and after training only."""
    timeout_s: Seconds = 14_400.0
    """For one evaluation; ``rollout.stall_timeout_s`` ends it sooner when nothing moves."""
