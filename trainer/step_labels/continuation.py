"""Labels by Monte-Carlo continuation: the share of continuations from a step on that solve the task.

Math-Shepherd (Wang et al. 2024, https://arxiv.org/abs/2312.08935), for episodes in environments: the recorded
actions are taken again in one instance, which is forked after each of them; each copy is played to its end by
a policy and graded. The other way to these states, a fresh instance for each continuation, gives the same
labels where the environment is deterministic, and takes all earlier steps again. Left out: the search for the
first wrong step by bisection (Luo et al. 2024, OmegaPRM), which labels fewer steps.

An episode that does not repeat, since its environment answers otherwise than recorded, has no labels. Nor has
a step of which a continuation failed for reasons of the infrastructure.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

from sandbox_client import SandboxError
from trainer.errors import EngineError, LabelFailed
from trainer.rollout.step_results import changed_tools

from .labels import StepLabels
from .repeating import RepeatedEpisode, open_instance, turns_of

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode, AsyncSandboxClient
    from sandbox_contract.episodes import EvaluateResult
    from sandbox_contract.messages import Message, Tool
    from trainer.config.step_labels import ContinuationConfig
    from trainer.recorded.types import RecordedEpisode

    from .repeating import RecordedTurn

    _Open = Callable[[], Awaitable[AsyncEpisode]]

_SEED_STEP = 1_000_003
"""Difference of the seeds of a continuation's turns, so that no two turns sample alike."""


class ContinuingPolicy(Protocol):
    """Writes the turns of continuations; used by many at a time."""

    async def write_turn(
        self, messages: Sequence[Message], tools: Sequence[Tool], seed: int
    ) -> Message | None:
        """Return the turn that follows the messages; None where they leave no room for one.

        Raises EngineError without an answer, and ConfigError where no request will have one.
        """
        ...


class ContinuationLabeller:
    """Implements ``StepLabeller`` with a service and a policy."""

    def __init__(
        self,
        client: AsyncSandboxClient,
        policy: ContinuingPolicy,
        config: ContinuationConfig,
        dimension: str = "correctness",
    ) -> None:
        self._client = client
        self._policy = policy
        self._config = config
        self._dimension = dimension

    async def label_steps(self, episode: RecordedEpisode) -> StepLabels:
        if not episode.environment or not episode.task_id:
            raise LabelFailed(f"{episode.origin}: repeating it needs its environment and task_id", "task")
        turns = turns_of(episode)
        values: list[float | None] = []
        failures: Counter[str] = Counter()
        try:
            async with open_instance(self._client, episode) as instance:
                repeated = RepeatedEpisode(episode, instance)
                for place, turn in enumerate(turns, 1):
                    await repeated.take_step(turn)
                    try:
                        values.append(await self._value(repeated, turns[:place]))
                    except LabelFailed as failure:
                        failures[failure.failure_class] += 1
                        values.append(None)
        except SandboxError as error:
            raise LabelFailed(f"{episode.origin}: {error}", error.failure_class.value) from error
        return StepLabels({self._dimension: tuple(values)}, dict(failures))

    async def _value(self, repeated: RepeatedEpisode, turns: Sequence[RecordedTurn]) -> float:
        """Return the value of the last of these steps. Raises LabelFailed, SandboxError."""
        config, live = self._config, repeated.instance
        if live.finished or live.step_index >= config.max_turns:
            # Nothing is left to sample: all continuations would be graded alike.
            return self._solved(await live.evaluate())
        async with AsyncExitStack() as stack:
            if config.state == "fork":
                copies = await live.fork(config.continuations)
                for copy in copies:
                    stack.push_async_callback(copy.release)
                openers: list[_Open] = [_copy_or_another(copy, live) for copy in copies]
            else:
                openers = [lambda: self._replayed(repeated.recorded, turns)] * config.continuations
            played = [
                asyncio.create_task(self._continued(repeated, opener, len(turns), number))
                for number, opener in enumerate(openers)
            ]
            try:
                solved = await asyncio.gather(*played)
            finally:
                for task in played:
                    task.cancel()
                await asyncio.gather(*played, return_exceptions=True)
        return max(solved) if config.value == "any" else sum(solved) / len(solved)

    async def _replayed(self, episode: RecordedEpisode, turns: Sequence[RecordedTurn]) -> AsyncEpisode:
        """Return a fresh instance in which these steps have been taken."""
        fresh = open_instance(self._client, episode)
        try:
            await fresh.__aenter__()
            repeated = RepeatedEpisode(episode, fresh)
            for turn in turns:
                await repeated.take_step(turn)
        except BaseException:
            await fresh.release()
            raise
        return fresh

    async def _continued(self, repeated: RepeatedEpisode, opener: _Open, steps: int, number: int) -> float:
        """Return 1 if a continuation solves the task, else 0. Raises LabelFailed after all attempts."""
        config = self._config
        seed = continuation_seed(config.seed, repeated.recorded, steps, number)
        failure = LabelFailed("no attempt was made", "policy")
        for _ in range(config.attempts):
            try:
                async with asyncio.timeout(config.timeout_s) as limit, AsyncExitStack() as stack:
                    copy = await opener()
                    stack.push_async_callback(copy.release)
                    # Grading takes what its task says.
                    limit.reschedule((limit.when() or 0.0) + (copy.evaluate_s or 0.0))
                    return self._solved(await self._played(copy, repeated, seed))
            except SandboxError as error:
                failure = LabelFailed(str(error), error.failure_class.value)
            except EngineError as error:
                failure = LabelFailed(str(error), "engine")
            except TimeoutError:
                failure = LabelFailed(f"a continuation took longer than {config.timeout_s:g} s", "timeout")
        raise failure

    async def _played(self, copy: AsyncEpisode, repeated: RepeatedEpisode, seed: int) -> EvaluateResult:
        """Play a copy to its end, and return its grade."""
        messages: list[Message] = list(repeated.said)
        tools: Sequence[Tool] = repeated.tools
        while not copy.finished and copy.step_index < self._config.max_turns:
            turn_seed = (seed + _SEED_STEP * copy.step_index) % 2**31
            turn = await self._policy.write_turn(messages, tools, turn_seed)
            if turn is None:
                break
            result = await copy.step(turn)
            answer = result.observation.messages
            messages = list(answer) if result.info.get("new_session") is True else [*messages, turn, *answer]
            tools = changed_tools(result) or tools
        return await copy.evaluate()

    def _solved(self, verdict: EvaluateResult) -> float:
        least = self._config.solved_from
        return float(verdict.success if least is None else verdict.score >= least)


def continuation_seed(seed: int, episode: RecordedEpisode, steps: int, number: int) -> int:
    """Return the seed of one continuation, which depends on nothing but its place."""
    place = f"{seed}/{episode.id}/{'/'.join(episode.task)}/{steps}/{number}"
    return int.from_bytes(hashlib.sha256(place.encode()).digest()[:4], "big") % 2**31


def _copy_or_another(copy: AsyncEpisode, live: AsyncEpisode) -> _Open:
    """Return a function that gives the copy, and a new one each time after that."""
    left = [copy]

    async def opener() -> AsyncEpisode:
        return left.pop() if left else (await live.fork(1))[0]

    return opener
