"""Play episodes in the trainer's own loop: the policy samples turns, the sandbox returns observations.

The time limit of a turn or an episode ends it and leads to a grade, as the limit of turns does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sandbox_contract.frames import begins_session
from trainer.chat.offload import Offload
from trainer.engines.generation import Finish, GenerationRequest, Sampling
from trainer.engines.seeds import turn_seed
from trainer.errors import Stalled
from trainer.types import StopReason

from .attempt import EpisodeAttempt, PlayedConversation
from .base_player import GRACE_S, BasePlayer
from .conversation import Conversation
from .forks import PlayedTurn
from .step_results import changed_tools, end_of, turn_metrics

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode, AsyncSandboxClient
    from sandbox_contract.episodes import StepResult
    from sandbox_contract.messages import Message, Tool
    from trainer.chat import ChatTokenizer
    from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
    from trainer.engines.generation import Generation, Policy
    from trainer.types import GroupSpec, Trajectory

    from .episode_steps import EpisodeSteps
    from .forks import ForkPoint, TurnForks
    from .progress import ProgressMonitor

_LEAST_TURN = 16
"""Tokens that a turn needs to hold an action; with less room, the context is full."""
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
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock``: seconds, by which ``config.episode_timeout_s`` is counted."""
        super().__init__(client, policy, chat, config, service, watch, grace_s)
        self.policy = policy
        self.chat = chat
        self.clock = clock
        self.offload = Offload(shared=chat.threaded)

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
        attempt = EpisodeAttempt(self, spec, member, sampling)
        loop = _OwnLoop(self, attempt, forks, start)
        return await attempt.run(loop, None if start is None else start.episode)


class _OwnLoop:
    """Implements ``EpisodeLoop``: turn after turn of the policy, each followed by a step."""

    def __init__(
        self,
        player: EpisodePlayer,
        attempt: EpisodeAttempt,
        forks: TurnForks | None,
        start: ForkPoint | None,
    ) -> None:
        self._player = player
        self._config = player.config
        self._attempt = attempt
        self._key = attempt.key
        self._phases = attempt.phases
        self._sampling = attempt.sampling
        self._forks = forks
        self._start = start
        self._turns: list[PlayedTurn] = []
        """Turns with their steps, where the instance is forked between them."""
        self._conversation = Conversation(
            player.chat,
            player.context_tokens,
            drops_oldest=player.config.when_full == "drop_oldest",
            least_room=min(_LEAST_TURN, attempt.sampling.max_turn_tokens),
            checks=lambda turn: checked_for_drift(attempt.spec, attempt.key.seed, turn, player.config),
        )
        self._tools: tuple[Tool, ...] = ()
        self._deadline = math.inf
        """Time of the clock at which the episode ends and is graded, unless a step is in progress."""

    async def play_out(self, episode: AsyncEpisode, steps: EpisodeSteps) -> StopReason:
        conversation = self._conversation
        self._deadline = self._player.clock() + self._config.episode_timeout_s
        self._tools = episode.tools
        opening = await steps.open() if self._start is None else self._start.opening
        if opening is None:
            return StopReason.TERMINATED
        begin = partial(conversation.begin, opening.messages, episode.tools)
        length = sum(len(message.content or "") for message in opening.messages)
        await self._player.offload.run(length, begin)
        for turn in range(await self._take_again(), self._attempt.spec.max_turns):
            room = await self._room()
            if not room:
                return StopReason.CONTEXT_FULL
            if self._forks is not None:
                await self._forks.before_turn(episode, opening, self._turns, self._phases)
            generation = await self._generate(turn, room)
            if generation is None:
                return StopReason.TIME_LIMIT
            sampling_s = self._phases.took_s
            message = await self._add_turn(generation, sampling_s)
            if generation.finish is Finish.TIMEOUT:
                return StopReason.TIME_LIMIT
            if generation.finish is Finish.LENGTH and self._config.cut_turns == "stop":
                return StopReason.TURN_CUT
            result = await steps.step(message)
            conversation.add_reward(result.reward, turn_metrics(message, result), steps.took_s)
            end = end_of(result)
            if end is not None:
                conversation.note(result.observation.messages)
                return end
            await self._add_observation(result)
            if self._forks is not None:
                self._turns.append(PlayedTurn(generation, sampling_s, result, steps.took_s))
        return StopReason.HORIZON

    def recorded(self) -> PlayedConversation:
        conversation = self._conversation
        return PlayedConversation(
            segments=conversation.segments(),
            lines=tuple(conversation.lines),
            frames=tuple(conversation.frames),
            drifted=conversation.drifted,
            checked=conversation.checked,
        )

    async def _take_again(self) -> int:
        """Add the turns that were played before the fork, as they were; return their number."""
        given = () if self._start is None else self._start.turns
        for played in given:
            await self._room()  # forgets the exchanges that it forgot then
            message = await self._add_turn(played.generation, played.sampling_s)
            terms = turn_metrics(message, played.result)
            self._conversation.add_reward(played.result.reward, terms, played.sandbox_s)
            await self._add_observation(played.result)
        return len(given)

    async def _room(self) -> int:
        conversation = self._conversation
        length = _CHARACTERS * len(conversation.prompt) if conversation.must_drop else 0
        return await self._player.offload.run(length, conversation.room)

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
            key=replace(self._key, turn=turn),
            token_ids=self._conversation.prompt,
            max_tokens=min(sampling.max_turn_tokens, room),
            sampling=Sampling(
                sampling.temperature, sampling.top_p, sampling.top_k, self._player.chat.stop_ids
            ),
            seed=turn_seed(self._key.seed, turn),
            limit_s=limit_s,
        )
        call = self._player.policy.generate(request)
        try:
            return await self._phases.within("generate", limit_s + self._player.grace_s, call)
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
        if begins_session(result.info):
            add = partial(self._conversation.begin, messages, self._tools)
        else:
            add = partial(self._conversation.add_observation, messages, tools)
        await self._player.offload.run(sum(len(message.content or "") for message in messages), add)
