"""Settings of the warm start before reinforcement learning, and of evaluation."""

from __future__ import annotations

from pydantic import model_validator

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
    """Splits of held-out tasks; without any there is no evaluation. A split of another environment than
    ``tasks.environment`` is written ``ENVIRONMENT/SPLIT``.
    """
    limit: Positive | None = None
    """Use only this many tasks of each environment."""
    episodes: Positive = 1
    """Episodes per task."""
    pass_at: tuple[Positive, ...] = (1,)
    """Values of k for pass@k; none may exceed ``episodes``."""
    temperature: NonNegative = 1.0
    """Sampling temperature; 0 is greedy."""
    every: Count = 0
    """Steps between evaluations; 0: only before and after training."""
    timeout_s: Seconds = 14_400.0
    """Time limit of one evaluation; ``rollout.stall_timeout_s`` ends it sooner without progress."""

    @model_validator(mode="after")
    def _plays_enough_episodes(self) -> EvaluationConfig:
        most = max(self.pass_at, default=1)
        if most > self.episodes:
            raise ValueError(
                f"pass@{most} needs at least {most} episodes of a task, and episodes is {self.episodes}: set "
                f"evaluation.episodes={most}, or leave {most} out of pass_at"
            )
        return self

    def splits_by_environment(self, default: str) -> dict[str, tuple[str, ...]]:
        """Return the splits of each environment; those that name none belong to ``default``."""
        splits: dict[str, tuple[str, ...]] = {}
        for written in self.splits:
            environment, mark, split = written.partition("/")
            name, split = (environment, split) if mark else (default, written)
            splits[name] = (*splits.get(name, ()), split)
        return splits
