"""Plays tasks, so many at a time, and never lets one episode's failure touch another."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clients import SandboxError

from .outcomes import EpisodeOutcome, Failed, Recorder, RunSummary, failure_counts, group, groups
from .policies import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import JsonValue

    from clients import AsyncEpisode, AsyncSandboxClient

    from .policies import Policy

__all__ = ["PolicyRun"]


@dataclass(slots=True)
class PolicyRun:
    """One policy over the tasks of some splits."""

    environment: str
    splits: tuple[str, ...]
    """The environment's default split when empty, until ``choose`` knows its name."""
    policy_name: str
    policy: Policy
    concurrency: int
    recorder: Recorder = field(default_factory=Recorder)
    """Give it to the client as its observer."""
    outcomes: list[EpisodeOutcome] = field(default_factory=list)
    elapsed_s: float = 0.0

    @property
    def name(self) -> str:
        """Environment and splits."""
        return f"{self.environment}/{'+'.join(self.splits)}"

    async def choose(self, client: AsyncSandboxClient) -> list[str]:
        """The ids of the splits' tasks, each once."""
        profiles = [await client.get_env_profile(self.environment, split) for split in self.splits or (None,)]
        self.splits = tuple(profile.split for profile in profiles)
        return list(dict.fromkeys(task_id for profile in profiles for task_id in profile.task_ids))

    async def play(
        self,
        client: AsyncSandboxClient,
        task_ids: Sequence[str],
        done: Callable[[EpisodeOutcome], None] = lambda _: None,
    ) -> None:
        """Play every task; what was finished before a cancellation stays in ``outcomes``."""
        waiting = iter(task_ids)
        started = time.monotonic()

        async def worker() -> None:
            for task_id in waiting:
                outcome = await self._episode(client, task_id)
                self.outcomes.append(outcome)
                done(outcome)

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self.concurrency, len(task_ids))):
                    workers.create_task(worker())
        finally:
            self.elapsed_s = time.monotonic() - started

    def summary(self) -> RunSummary:
        """The figures of what was played."""
        return RunSummary(
            environment=self.environment,
            splits=self.splits,
            policy=self.policy_name,
            concurrency=self.concurrency,
            elapsed_s=self.elapsed_s,
            overall=group("all", self.outcomes),
            by_difficulty=groups(self.outcomes, "difficulty"),
            by_category=groups(self.outcomes, "category"),
            failures=failure_counts(self.outcomes),
            latencies=self.recorder.summaries(),
        )

    async def _episode(self, client: AsyncSandboxClient, task_id: str) -> EpisodeOutcome:
        started = time.monotonic()
        episode = client.episode(self.environment, task_id)
        failed: Failed | None = None
        score: float | None = None
        success: bool | None = None
        try:
            messages = self.policy.messages(task_id)
            async with episode:
                for message in messages:
                    if episode.finished:
                        break
                    await episode.step(message)
                verdict = await episode.evaluate()
                score, success = verdict.score, verdict.success
        except SandboxError as error:
            failed = Failed(error.failure_class.value, error.code, str(error))
        except PolicyError as error:
            failed = Failed("policy", "no_messages", str(error))
        return EpisodeOutcome(
            task_id=task_id,
            elapsed_s=time.monotonic() - started,
            instance_id=_instance_of(episode),
            difficulty=_text(episode.info.get("difficulty")),
            category=_text(episode.info.get("category")),
            steps=episode.step_index,
            score=score,
            success=success,
            failed=failed,
        )


def _instance_of(episode: AsyncEpisode) -> str | None:
    try:
        return episode.instance_id
    except RuntimeError:
        return None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
