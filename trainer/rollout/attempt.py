"""One attempt at an episode: create an instance, have the episode played in it, grade it and release it.

The steps are the same for the trainer's own loop and for an agent. A failure is recorded on the trajectory
with everything played before it: an infrastructure failure is never a score. Every wait has a deadline, and
the instance is always released.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sandbox_client import SandboxError
from trainer.errors import AgentFailed, EngineError, Stalled
from trainer.types import EpisodeKey, StopReason, Trajectory

from .episode_steps import EpisodeSteps
from .failures import note_of
from .phases import EpisodePhases
from .step_results import described_task

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode
    from sandbox_contract.episodes import EvaluateResult
    from trainer.config.rollout import SamplingConfig
    from trainer.types import FailureNote, GroupSpec, Line, PromptFrame, Segment

    from .base_player import BasePlayer

logger = logging.getLogger(__name__)

_REBUILD_S = 120.0
"""Time for the transfer, and for another box if the instance was lost."""


@dataclass(frozen=True, slots=True)
class PlayedConversation:
    """The conversation of the policy in an episode, and its sampled tokens."""

    segments: tuple[Segment, ...] = ()
    lines: tuple[Line, ...] = ()
    """The conversation as text, for readers."""
    frames: tuple[PromptFrame, ...] = ()
    """Of the conversation, where the trainer rendered its prompts."""
    drifted: int = 0
    """Checked turns whose text would be tokenized to other tokens."""
    checked: int = 0
    remarks: tuple[Line, ...] = ()
    """Shown behind the conversation of the counterpart."""


class EpisodeLoop(Protocol):
    """Plays one episode in its instance."""

    async def play_out(self, episode: AsyncEpisode, steps: EpisodeSteps) -> StopReason:
        """Play the episode until it is to be graded; return the reason of its end.

        Raises SandboxError, EngineError, Stalled or AgentFailed for an episode without a grade, and
        ConfigError where every other episode would end in the same way.
        """
        ...

    def recorded(self) -> PlayedConversation:
        """Return what was played, to its end or up to a failure."""
        ...


class EpisodeAttempt:
    """One attempt of one player, for one call of ``run``."""

    def __init__(self, player: BasePlayer, spec: GroupSpec, member: int, sampling: SamplingConfig) -> None:
        self.spec = spec
        self.sampling = sampling
        self.key = EpisodeKey(spec.trajectory_id(member), spec.task, spec.seed + member)
        self.phases = EpisodePhases(self.key.trajectory_id, player.watch)
        """A loop sets ``phase`` for what it does not await by ``within``."""
        self._player = player
        self._member = member
        self._task = spec.task
        self._stop = StopReason.FAILED
        self._verdict: EvaluateResult | None = None
        self._counterpart_lines: tuple[Line, ...] = ()
        self._counterpart_segments: tuple[Segment, ...] = ()
        """Segments of the counterpart that are trained."""

    async def run(self, loop: EpisodeLoop, start: AsyncEpisode | None = None) -> Trajectory:
        """Return the episode as it was played, with its grade or its failure.

        It is played in a fresh instance, or in that of ``start``, which is released. Raises ConfigError as
        the loop does.
        """
        failure: FailureNote | None = None
        try:
            await self._play(loop, start)
        except (SandboxError, EngineError, Stalled, AgentFailed) as error:
            failure = note_of(error, self.phases.phase, self.phases.instance_id)
        played = loop.recorded()
        if played.drifted:
            logger.debug(
                "episode %s: the text of %d of %d turns would be tokenized differently",
                self.key.trajectory_id,
                played.drifted,
                played.checked,
            )
        return self._trajectory(played, failure)

    async def _play(self, loop: EpisodeLoop, start: AsyncEpisode | None) -> None:
        async with AsyncExitStack() as stack:
            try:
                episode = await self._entered(stack, start)
                self.phases.instance_id = episode.instance_id
                self._task = described_task(self._task, episode.info)
                self._stop = await self._play_out(loop, episode)
                self._verdict = await self._graded(episode)
                stack.pop_all()  # released in the background: the trajectory is complete
                self._player.instances.release(episode)
            finally:
                self.phases.enter_phase("release")

    async def _entered(self, stack: AsyncExitStack, start: AsyncEpisode | None) -> AsyncEpisode:
        """Return the episode with its instance, which the stack releases."""
        if start is not None:
            return await stack.enter_async_context(start)
        opened = self._player.instances.enter(stack, self.spec, self._member)
        return await self.phases.within("create", self._player.service.create_timeout_s, opened)

    async def _play_out(self, loop: EpisodeLoop, episode: AsyncEpisode) -> StopReason:
        """Have the episode played to its end, with its counterpart if it has one."""
        player = self._player
        steps = EpisodeSteps(
            episode,
            self.phases,
            player.counterparts.open(self.key, self.sampling),
            timeout_s=player.service.step_timeout_s,
            grace_s=player.grace_s,
        )
        try:
            return await loop.play_out(episode, steps)
        finally:
            self._counterpart_lines = steps.lines()
            self._counterpart_segments = await steps.close()

    async def _graded(self, episode: AsyncEpisode) -> EvaluateResult:
        """Grade the episode, within the player's limit or, if that is longer, the time its task asks for."""
        own_s = 0.0 if episode.evaluate_s is None else episode.evaluate_s + _REBUILD_S
        limit_s = max(self._player.service.evaluate_timeout_s, own_s)
        grading = episode.evaluate(params=self._player.config.evaluation_params)
        return await self.phases.within("evaluate", limit_s, grading, own_s)

    def _trajectory(self, played: PlayedConversation, failure: FailureNote | None) -> Trajectory:
        verdict = None if failure is not None else self._verdict
        return Trajectory(
            id=self.key.trajectory_id,
            task=self._task,
            seed=self.key.seed,
            segments=(*played.segments, *self._counterpart_segments),
            stop=StopReason.FAILED if failure is not None else self._stop,
            score=verdict.score if verdict else None,
            success=verdict.success if verdict else None,
            failure=failure,
            drifted=played.drifted,
            checked=played.checked,
            instance_id=self.phases.instance_id,
            lines=(*played.lines, *self._counterpart_lines, *played.remarks),
            frames=played.frames,
            timings=self.phases.timings(),
        )
