"""Plays tasks, so many at a time, and never lets one episode's failure touch another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_client import SandboxError

from .conversation import Conversation
from .outcomes import EpisodeOutcome, Failed, Recorder
from .policies import PolicyError, Usage
from .scores import RunSummary, ending_counts, failure_counts, group, groups

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_client import AsyncEpisode, AsyncSandboxClient

    from .policies import Actor, Policy


@dataclass(slots=True)
class PolicyRun:
    """One policy over the tasks of some splits."""

    environment: str
    splits: tuple[str, ...]
    """The environment's default split when empty, until ``choose`` knows its name."""
    policy_name: str
    policy: Policy
    concurrency: int
    seed: int = 0
    """Seed of the first episode of each task; the others count on."""
    repeat: int = 1
    """Episodes a task."""
    max_steps: int | None = None
    """Steps after which the policy stops, where the environment allows more."""
    keep: Callable[[EpisodeOutcome, Conversation], None] = lambda _outcome, _said: None
    """Told of every episode as it ends, with what was said in it."""
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
        waiting = iter([(task_id, repeat) for repeat in range(self.repeat) for task_id in task_ids])
        started = time.monotonic()

        async def worker() -> None:
            for task_id, repeat in waiting:
                conversation = Conversation()
                outcome = await self._episode(client, task_id, repeat, conversation)
                self.outcomes.append(outcome)
                self.keep(outcome, conversation)
                done(outcome)

        try:
            await self.policy.prepare()
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self.concurrency, len(task_ids) * self.repeat)):
                    workers.create_task(worker())
        finally:
            self.elapsed_s = time.monotonic() - started
            await self.policy.aclose()

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
            failure_codes=failure_counts(self.outcomes, codes=True),
            endings=ending_counts(self.outcomes),
            seed=self.seed,
            repeat=self.repeat,
            model_calls=sum(outcome.model_calls for outcome in self.outcomes),
            cut=sum(outcome.cut for outcome in self.outcomes),
        )

    async def _episode(
        self, client: AsyncSandboxClient, task_id: str, repeat: int, conversation: Conversation
    ) -> EpisodeOutcome:
        started = time.monotonic()
        seed = self.seed + repeat
        episode = client.episode(self.environment, task_id, seed=seed)
        usage = Usage()
        failed: Failed | None = None
        score: float | None = None
        success: bool | None = None
        try:
            actor = self.policy.actor(task_id, seed)
            usage = actor.usage
            async with episode:
                await self._act(actor, episode, conversation)
                verdict = await episode.evaluate()
                score, success = verdict.score, verdict.success
        except SandboxError as error:
            failed = Failed(error.failure_class.value, error.code, str(error))
        except PolicyError as error:
            failed = Failed("policy", error.code, str(error))
        return EpisodeOutcome(
            task_id=task_id,
            elapsed_s=time.monotonic() - started,
            repeat=repeat,
            instance_id=_instance_of(episode),
            difficulty=_text(episode.info.get("difficulty")),
            category=_text(episode.info.get("category")),
            steps=episode.step_index,
            score=score,
            success=success,
            failed=failed,
            ended=usage.ended,
            model_calls=usage.calls,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            cut=usage.cut,
        )

    async def _act(self, actor: Actor, episode: AsyncEpisode, conversation: Conversation) -> None:
        conversation.begin(episode.observation.messages, episode.tools, episode.info)
        while not episode.finished and (self.max_steps is None or episode.step_index < self.max_steps):
            message = await actor.act(conversation.view())
            if message is None:
                break
            conversation.act(message)
            conversation.answer(await episode.step(message))


def _instance_of(episode: AsyncEpisode) -> str | None:
    try:
        return episode.instance_id
    except RuntimeError:
        return None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
