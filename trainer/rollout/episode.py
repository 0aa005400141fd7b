"""Play one episode: the policy samples turns, the sandbox returns observations, the service grades.

A failure is recorded on the trajectory with everything played before it: an infrastructure failure is never a
score. The time limit of a turn or an episode ends it and leads to a grade, as the limit of turns does. Every
wait has a deadline, and the instance is always released.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from sandbox_client import SandboxError
from trainer.chat.offload import Offload
from trainer.engines.generation import Finish, GenerationRequest, Sampling
from trainer.engines.seeds import turn_seed
from trainer.errors import EngineError, Stalled
from trainer.types import EpisodeKey, StopReason, Trajectory

from .base_player import BasePlayer
from .conversation import Conversation
from .counterparts import Counterparts
from .episode_steps import EpisodeSteps
from .failures import note_of
from .forks import PlayedTurn
from .phases import EpisodePhases
from .step_results import changed_tools, described_task, turn_metrics

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode, AsyncSandboxClient
    from sandbox_contract.episodes import EvaluateResult, StepResult
    from sandbox_contract.messages import Message, Tool
    from trainer.chat import ChatTokenizer
    from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
    from trainer.engines.generation import Generation, Policy
    from trainer.types import FailureNote, GroupSpec, Line, Segment

    from .forks import ForkPoint, TurnForks
    from .progress import ProgressMonitor

logger = logging.getLogger(__name__)

_LEAST_TURN = 16
"""Tokens that a turn needs to hold an action; with less room, the context is full."""
_GRACE_S = 30.0
"""Seconds added to a call's own deadline, for the network, queues and retries."""
_CHECKED_GROUPS = 8
"""Groups at the beginning of a run whose turns are all checked for drift."""
_CHARACTERS = 4
"""Approximate characters of a token."""


def checked_for_drift(spec: GroupSpec, seed: int, turn: int, config: RolloutConfig) -> bool:
    """Return whether a turn's text is tokenized again: each of the first groups, and one in so many later."""
    return 0 <= spec.index < _CHECKED_GROUPS or (seed + turn) % config.drift_check == 0


class EpisodePlayer(BasePlayer):
    """Plays episodes concurrently, with one policy and one service."""

    def __init__(
        self,
        client: AsyncSandboxClient,
        policy: Policy,
        chat: ChatTokenizer,
        config: RolloutConfig,
        service: SandboxServiceConfig,
        watch: ProgressMonitor | None = None,
        grace_s: float = _GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock``: seconds, by which ``config.episode_timeout_s`` is counted."""
        super().__init__(client, chat, config, service, watch)
        self.policy = policy
        self.chat = chat
        self.grace_s = grace_s
        self.clock = clock
        self.offload = Offload(shared=chat.threaded)
        self.counterparts = Counterparts(config, policy, chat, self.context_tokens)

    async def close(self) -> None:
        """Release instances that are not used, wait for releases in progress, and close connections."""
        await super().close()
        await self.counterparts.close()

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode in a fresh instance. Raises ConfigError if the template does not fit."""
        return await self.play_attempt(spec, member, sampling)

    async def play_attempt(
        self,
        spec: GroupSpec,
        member: int,
        sampling: SamplingConfig,
        *,
        forks: TurnForks | None = None,
        start: ForkPoint | None = None,
    ) -> Trajectory:
        """Play one episode in a fresh instance, or on from ``start``, which is released.

        ``forks`` fork the instance before turns. Raises ConfigError if the template does not fit.
        """
        played = _Played(self, spec, member, sampling, forks, start)
        failure: FailureNote | None = None
        try:
            await played.play()
        except (SandboxError, EngineError, Stalled) as error:
            failure = note_of(error, played.phases.phase, played.phases.instance_id)
        trajectory = played.build_trajectory(failure)
        if trajectory.drifted:
            logger.debug(
                "episode %s: the text of %d of %d turns would be tokenized differently",
                trajectory.id,
                trajectory.drifted,
                trajectory.checked,
            )
        return trajectory


class _Played:
    """One episode in progress."""

    def __init__(
        self,
        player: EpisodePlayer,
        spec: GroupSpec,
        member: int,
        sampling: SamplingConfig,
        forks: TurnForks | None,
        start: ForkPoint | None,
    ) -> None:
        self._player = player
        self._forks = forks
        self._start = start
        self._turns: list[PlayedTurn] = []
        """Turns with their steps, where the instance is forked between them."""
        self._config = player.config
        self._spec = spec
        self._task = spec.task
        self._member = member
        self._id = spec.trajectory_id(member)
        self._seed = spec.seed + member
        self._sampling = sampling
        self._conversation = Conversation(
            player.chat,
            player.context_tokens,
            drops_oldest=player.config.when_full == "drop_oldest",
            least_room=min(_LEAST_TURN, sampling.max_turn_tokens),
            checks=self._checks_drift,
        )
        self._tools: tuple[Tool, ...] = ()
        self._stop = StopReason.FAILED
        self._verdict: EvaluateResult | None = None
        self._counterpart_segments: tuple[Segment, ...] = ()
        """Segments of the counterpart that are trained."""
        self._counterpart_lines: tuple[Line, ...] = ()
        self.phases = EpisodePhases(self._id, player.watch)
        self._deadline = math.inf
        """Time of the clock at which the episode ends and is graded, unless a step is in progress."""

    async def play(self) -> None:
        """Play and grade the episode. Raises SandboxError, EngineError, Stalled, ConfigError."""
        service = self._player.service
        async with AsyncExitStack() as stack:
            try:
                episode = await self._entered(stack)
                self._deadline = self._player.clock() + self._config.episode_timeout_s
                self._stop = await self._play_out(episode)
                self._verdict = await self.phases.graded(
                    episode, self._config.evaluation_params, service.evaluate_timeout_s
                )
                stack.pop_all()  # released in the background: the trajectory is complete
                self._player.instances.release(episode)
            finally:
                self.phases.enter_phase("release")

    async def _entered(self, stack: AsyncExitStack) -> AsyncEpisode:
        """Return the episode with its instance, which the stack releases."""
        if self._start is not None:
            return await stack.enter_async_context(self._start.episode)
        opened = self._player.instances.enter(stack, self._spec, self._member)
        return await self.phases.within("create", self._player.service.create_timeout_s, opened)

    def build_trajectory(self, failure: FailureNote | None) -> Trajectory:
        """Return the trajectory of what was played."""
        verdict = None if failure is not None else self._verdict
        return Trajectory(
            id=self._id,
            task=self._task,
            seed=self._seed,
            segments=(*self._conversation.segments(), *self._counterpart_segments),
            stop=StopReason.FAILED if failure is not None else self._stop,
            score=verdict.score if verdict else None,
            success=verdict.success if verdict else None,
            failure=failure,
            drifted=self._conversation.drifted,
            checked=self._conversation.checked,
            instance_id=self.phases.instance_id,
            lines=(*self._conversation.lines, *self._counterpart_lines),
            timings=self.phases.timings(),
        )

    async def _play_out(self, episode: AsyncEpisode) -> StopReason:
        """Play the episode to its end, with its counterpart if it has one."""
        player = self._player
        key = EpisodeKey(self._id, self._spec.task, self._seed)
        steps = EpisodeSteps(
            episode,
            self.phases,
            player.counterparts.open(key, self._sampling),
            timeout_s=player.service.step_timeout_s,
            grace_s=player.grace_s,
        )
        try:
            return await self._converse(episode, steps)
        finally:
            self._counterpart_lines = steps.lines()
            self._counterpart_segments = await steps.close()

    async def _converse(self, episode: AsyncEpisode, steps: EpisodeSteps) -> StopReason:
        conversation = self._conversation
        self.phases.instance_id = episode.instance_id
        self._tools = episode.tools
        self._task = described_task(self._task, episode.info)
        opening = await steps.open() if self._start is None else self._start.opening
        if opening is None:
            return StopReason.TERMINATED
        begin = partial(conversation.begin, opening.messages, episode.tools)
        length = sum(len(message.content or "") for message in opening.messages)
        await self._player.offload.run(length, begin)
        for turn in range(await self._take_again(), self._spec.max_turns):
            room = conversation.room()
            if not room:
                return StopReason.CONTEXT_FULL
            if self._forks is not None:
                await self._forks.before_turn(episode, opening, self._turns, self.phases)
            generation = await self._generate(turn, room)
            if generation is None:
                return StopReason.TIME_LIMIT
            sampling_s = self.phases.took_s
            message = await self._add_turn(generation, sampling_s)
            if generation.finish is Finish.TIMEOUT:
                return StopReason.TIME_LIMIT
            if generation.finish is Finish.LENGTH and self._config.cut_turns == "stop":
                return StopReason.TURN_CUT
            result = await steps.step(message)
            conversation.add_reward(result.reward, turn_metrics(message, result), steps.took_s)
            if result.terminated or result.truncated:
                conversation.note(result.observation.messages)
                return StopReason.TERMINATED if result.terminated else StopReason.TRUNCATED
            await self._add_observation(result)
            if self._forks is not None:
                self._turns.append(PlayedTurn(generation, sampling_s, result, steps.took_s))
        return StopReason.HORIZON

    async def _take_again(self) -> int:
        """Add the turns that were played before the fork, as they were; return their number."""
        given = () if self._start is None else self._start.turns
        for played in given:
            self._conversation.room()  # forgets the exchanges that it forgot then
            message = await self._add_turn(played.generation, played.sampling_s)
            terms = turn_metrics(message, played.result)
            self._conversation.add_reward(played.result.reward, terms, played.sandbox_s)
            await self._add_observation(played.result)
        return len(given)

    async def _add_turn(self, generation: Generation, sampling_s: float) -> Message:
        add = partial(self._conversation.add_turn, generation, sampling_s)
        return await self._player.offload.run(_CHARACTERS * len(generation.token_ids), add)

    async def _generate(self, turn: int, room: int) -> Generation | None:
        """Return a turn; None if the episode's time was over before it had a token."""
        limit_s = min(self._config.generate_timeout_s, self._deadline - self._player.clock())
        if limit_s <= 0:
            return None
        sampling = self._sampling
        request = GenerationRequest(
            key=EpisodeKey(self._id, self._spec.task, self._seed, turn),
            token_ids=self._conversation.prompt,
            max_tokens=min(sampling.max_turn_tokens, room),
            sampling=Sampling(
                sampling.temperature, sampling.top_p, sampling.top_k, self._player.chat.stop_ids
            ),
            seed=turn_seed(self._seed, turn),
            limit_s=limit_s,
        )
        call = self._player.policy.generate(request)
        try:
            return await self.phases.within("generate", limit_s + self._player.grace_s, call)
        except Stalled:
            # With a turn played, the policy took the time; before one, the engines may be at fault.
            if turn and self._player.clock() >= self._deadline:
                return None
            raise

    async def _add_observation(self, result: StepResult) -> None:
        """Add the observation to the conversation, or begin another session with it."""
        tools = changed_tools(result)
        self._tools = self._tools if tools is None else tools
        messages = result.observation.messages
        if result.info.get("new_session") is True:
            add = partial(self._conversation.begin, messages, self._tools)
        else:
            add = partial(self._conversation.add_observation, messages, tools)
        await self._player.offload.run(sum(len(message.content or "") for message in messages), add)

    def _checks_drift(self, turn: int) -> bool:
        return checked_for_drift(self._spec, self._seed, turn, self._config)
