"""One episode that an agent plays: created, run, graded, and described as a trajectory."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sandbox_client import SandboxError
from sandbox_contract.agents import AgentTask
from trainer.errors import AgentFailed, AgentLost, EngineError, Stalled
from trainer.rollout.failures import note_of
from trainer.rollout.phases import EpisodePhases
from trainer.rollout.step_results import described_task
from trainer.types import EpisodeKey, Line, StopReason, Trajectory

from .episode_routes import PATH
from .instance import AgentInstance
from .launcher import AgentJob

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode
    from sandbox_contract.episodes import EvaluateResult
    from sandbox_contract.messages import Message
    from trainer.config.rollout import SamplingConfig
    from trainer.model_gateway.recording import Recording
    from trainer.model_gateway.session import Session
    from trainer.types import GroupSpec, Segment

    from .player import AgentPlayer

logger = logging.getLogger(__name__)

Failure: TypeAlias = SandboxError | EngineError | Stalled | AgentFailed

_GRACE_S = 30.0
"""Seconds added to a call's own deadline, for the network, queues and retries."""
_QUOTED = 2_000
"""Characters of an agent's error that are shown and logged."""
_WITHOUT_THE_MODEL = (StopReason.AGENT_ENDED, StopReason.TIME_LIMIT)
"""Ends that an agent may come to although no call of it reached the model."""


class AgentRun:
    """One attempt."""

    def __init__(self, player: AgentPlayer, spec: GroupSpec, member: int, sampling: SamplingConfig) -> None:
        self._player = player
        self._spec = spec
        self._member = member
        self._sampling = sampling
        self._id = spec.trajectory_id(member)
        self._task = spec.task
        self._phases = EpisodePhases(self._id, player.watch)
        self._recording: Recording | None = None
        self._stop = StopReason.FAILED
        self._lines: tuple[Line, ...] = ()
        """Shown behind those of the recording."""
        self._counterpart_segments: tuple[Segment, ...] = ()
        """Segments of the counterpart that are trained."""
        self._verdict: EvaluateResult | None = None

    async def play(self) -> None:
        """Play and grade the episode.

        Raises SandboxError, EngineError, Stalled, AgentFailed, and ConfigError if the run's settings keep the
        model from answering the agent.
        """
        player, service = self._player, self._player.service
        async with AsyncExitStack() as stack:
            try:
                entered = player.instances.enter(stack, self._spec, self._member)
                episode = await self._phases.within("create", service.create_timeout_s, entered)
                self._phases.instance_id = episode.instance_id
                self._task = described_task(self._task, episode.info)
                await self._let_agent_play(episode)
                self._verdict = await self._phases.graded(
                    episode, player.config.evaluation_params, service.evaluate_timeout_s
                )
                stack.pop_all()  # released in the background: the trajectory is complete
                player.instances.release(episode)
            finally:
                self._phases.enter_phase("release")

    def build_trajectory(self, failure: Failure | None) -> Trajectory:
        """Return the trajectory of what was played."""
        recording, verdict = self._recording, self._verdict if failure is None else None
        segments = recording.segments if recording is not None else ()
        sampling_s = sum(turn.sampling_s for segment in segments for turn in segment.turns)
        note = None
        if failure is not None:
            note = note_of(failure, self._phases.phase, self._phases.instance_id)
        return Trajectory(
            id=self._id,
            task=self._task,
            seed=self._spec.seed + self._member,
            segments=(*segments, *self._counterpart_segments),
            stop=StopReason.FAILED if failure is not None else self._stop,
            score=verdict.score if verdict else None,
            success=verdict.success if verdict else None,
            failure=note,
            drifted=recording.drifted if recording is not None else 0,
            checked=recording.checked if recording is not None else 0,
            instance_id=self._phases.instance_id,
            lines=(*(recording.lines if recording is not None else ()), *self._lines),
            timings=replace(self._phases.timings(), sampling_s=sampling_s),
        )

    async def _let_agent_play(self, episode: AsyncEpisode) -> None:
        """Run the agent until it has ended, and decide why. Raises a failure that is not the policy's."""
        player = self._player
        session = player.open_session(self._spec, self._member, self._sampling)
        timeout_s = player.service.step_timeout_s
        key = EpisodeKey(self._id, self._spec.task, self._spec.seed + self._member)
        counterpart = player.counterparts.open(key, self._sampling)
        instance = AgentInstance(
            episode, session, self._phases, counterpart, timeout_s=timeout_s, grace_s=_GRACE_S
        )
        try:
            opening = await instance.steps.open()
            task = self._described(episode, () if opening is None else opening.messages)
        except BaseException:
            await self._close_unplayed(session, instance)
            raise
        if opening is None:
            await self._close_unplayed(session, instance)
            self._stop = StopReason.TERMINATED
            return
        player.routes.add(instance, task)
        self._phases.phase = "agent"
        self._phases.enter_phase("agent")
        ended = StopReason.FAILED
        error: Failure | None = None
        try:
            job = AgentJob(self._id, task, session.api_key, episode.instance_id, player.timeout_s)
            ended = await self._run(job, instance)
        except (SandboxError, EngineError, Stalled, AgentFailed) as failed:
            error = failed
        finally:
            player.gateway.sessions.remove(session)  # sealed: nothing that comes now is recorded
            player.routes.remove(instance)
            self._recording = await session.close()
            await instance.close()
            self._counterpart_segments = await instance.steps.close()
            self._lines = (*instance.unanswered, *instance.steps.lines())
        self._stop = self._reason(instance, self._recording, ended, error)
        self._lines += self._error_lines(error)

    async def _close_unplayed(self, session: Session, instance: AgentInstance) -> None:
        """Close the sessions of an episode in which the agent has no part."""
        self._player.gateway.sessions.remove(session)
        await session.close()
        self._counterpart_segments = await instance.steps.close()
        self._lines = instance.steps.lines()

    def _described(self, episode: AsyncEpisode, opening: tuple[Message, ...]) -> AgentTask:
        url = self._player.gateway.url
        return AgentTask(
            base_url=f"{url}/v1",
            model=self._player.model,
            episode_url=f"{url}{PATH}",
            messages=opening,
            tools=episode.tools,
            info=episode.info,
        )

    async def _run(self, job: AgentJob, instance: AgentInstance) -> StopReason:
        """Run the agent to its end. Raises what it failed with, or what kept it from going on."""
        running = asyncio.create_task(self._player.launcher.run(job))
        try:
            await asyncio.wait(
                {running, instance.over},
                timeout=job.timeout_s + self._player.agent.grace_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            instance.session.seal()
            running.cancel()
            await asyncio.wait({running})
        if instance.over.done():
            instance.over.result()
            return StopReason.AGENT_ENDED
        if running.cancelled():
            return StopReason.TIME_LIMIT
        running.result()
        return StopReason.AGENT_ENDED

    def _reason(
        self, instance: AgentInstance, recording: Recording, ended: StopReason, error: Failure | None
    ) -> StopReason:
        """Return why the episode ended. Raises a failure for which it has no grade, or ConfigError."""
        if instance.session.rejected is not None:
            raise instance.session.rejected
        if isinstance(error, SandboxError | EngineError | Stalled):
            raise error  # in the phase of the step, or of the counterpart's answer to it
        self._phases.phase = "agent"
        if recording.failure is not None:
            self._phases.phase = "generate"
            raise recording.failure
        over = instance.stop or recording.limit
        if isinstance(error, AgentLost) and over is None:
            raise error
        if instance.session.misconfigured is not None and not instance.session.answered:
            raise instance.session.misconfigured  # every other episode would end in the same way
        if error is not None and not instance.session.answered:
            raise error
        if error is not None:
            logger.info("the agent of episode %s failed: %s", self._id, str(error)[:_QUOTED])
            ended = StopReason.AGENT_ERROR
        reason = over or ended
        if reason in _WITHOUT_THE_MODEL and not instance.session.answered:
            # Many agents log an error of the model and end as usual. The policy had no part in this episode.
            url, refused = self._player.gateway.url, instance.session.last_error
            why = f": {refused}" if refused else ""
            raise AgentFailed(f"the agent ended ({reason}), and the model at {url} had answered no call{why}")
        return reason

    def _error_lines(self, error: Failure | None) -> tuple[Line, ...]:
        return () if error is None else (Line("agent error", str(error)[:_QUOTED]),)
