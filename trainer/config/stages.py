"""Settings of the warm start before reinforcement learning, and of evaluation."""

from __future__ import annotations

from sandbox_settings import Branch, Count, InputFile, NonNegative, Positive, Seconds

from .learner import OptimizerConfig


class WarmStartConfig(Branch):
    """Supervised fine-tuning on demonstrations that are played in the sandbox."""

    demonstrations: InputFile
    """JSONL of ``{"task_id": ..., "messages": [assistant messages]}``, as ``sandbox-service envs references``
    and ``sandbox-trainer demonstrations`` write it."""
    limit: Positive | None = None
    """Use only this many demonstrations."""
    steps: Positive = 200
    """Steps of the fine-tuning."""
    batch: Positive = 32
    """Demonstrations per step."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-5, schedule="cosine", warmup_steps=20)
    keep_failures: bool = False
    """Also fine-tune on demonstrations that did not solve their task."""
    concurrency: Positive = 64
    """Concurrent demonstrations."""
    timeout_s: Seconds = 14_400.0
    """Time limit for playing all demonstrations; ``rollout.stall_timeout_s`` ends it sooner without
    progress.
    """


class EvaluationConfig(Branch):
    """Evaluation on held-out tasks."""

    splits: tuple[str, ...] = ()
    """Splits of held-out tasks; without any there is no evaluation."""
    limit: Positive | None = None
    """Use only this many tasks."""
    episodes: Positive = 1
    """Episodes per task."""
    temperature: NonNegative = 1.0
    """Sampling temperature; 0 is greedy."""
    every: Count = 0
    """Steps between evaluations; 0: only before and after training."""
    timeout_s: Seconds = 14_400.0
    """Time limit of one evaluation; ``rollout.stall_timeout_s`` ends it sooner without progress."""
