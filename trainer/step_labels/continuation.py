"""Labels by Monte-Carlo continuation: the share of continuations from a step on that solve the task.

Math-Shepherd (Wang et al. 2024, https://arxiv.org/abs/2312.08935), for episodes in environments: the recorded
actions are taken again in one instance, which is forked after each of them; each copy is played to its end by
a policy and graded. The other way to these states, a fresh instance for each continuation, gives the same
labels where the environment is deterministic, and takes all earlier steps again. Left out: the search for the
first wrong step by bisection (Luo et al. 2024, OmegaPRM), which labels fewer steps.

An episode that does not repeat, since its environment answers otherwise than recorded, has no labels. Nor has
a step of which a copy or a continuation failed for reasons of the infrastructure, in all attempts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from sandbox_client import SandboxError
from trainer.errors import EngineError, LabelFailed

from .labels import StepLabels
from .repeating import RepeatedEpisode, conversation_after, open_instance, tools_after

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode, AsyncSandboxClient
    from sandbox_contract.episodes import EvaluateResult
    from sandbox_contract.messages import Message, Tool
    from trainer.config.step_labels import ContinuationConfig
    from trainer.recorded.types import RecordedEpisode

    _Open = Callable[[], Awaitable[AsyncEpisode]]

_Answer = TypeVar("_Answer")

_COPIES = 8
"""Copies of an instance at a time. Each may take a box, of which a service has so many."""
_TURN_STRIDE = 1_000_003
"""Distance of the seeds of a continuation's turns."""


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
        values: list[float | None] = []
        failures: Counter[str] = Counter()
        try:
            async with open_instance(self._client, episode) as instance:
                repeated = RepeatedEpisode(episode, instance)
                values += [None] * repeated.examples
                for place, turn in enumerate(repeated.turns, 1):
                    await repeated.take_step(turn)
                    if turn.number < repeated.earlier + episode.repeated_turns:
                        values.append(None)
                        continue
                    try:
                        values.append(await self._value(repeated, place))
                    except LabelFailed as failure:
                        failures[failure.failure_class] += 1
                        values.append(None)
        except SandboxError as error:
            raise LabelFailed(f"{episode.origin}: {error}", error.failure_class.value) from error
        no_steps = frozenset(range(max(repeated.examples - repeated.earlier, episode.repeated_turns)))
        return StepLabels({self._dimension: tuple(values[repeated.earlier :])}, dict(failures), no_steps)

    async def _value(self, repeated: RepeatedEpisode, steps: int) -> float:
        """Return the value of the last of the steps that were taken. Raises LabelFailed."""
        config, live = self._config, repeated.instance
        if live.finished or live.step_index >= config.max_turns:
            # Nothing is left to sample: all continuations would be graded alike.
            return self._solved(await self._answered(live.evaluate))
        solved: list[float] = []
        for first in range(0, config.continuations, _COPIES):
            numbers = range(first, min(first + _COPIES, config.continuations))
            solved += await self._continuations(repeated, steps, numbers)
        return max(solved) if config.value == "any" else sum(solved) / len(solved)

    async def _continuations(
        self, repeated: RepeatedEpisode, steps: int, numbers: Sequence[int]
    ) -> Sequence[float]:
        """Return for each of these continuations whether it solves the task. Raises LabelFailed."""
        live = repeated.instance
        async with AsyncExitStack() as stack:
            if self._config.state == "fork":
                copies = await self._answered(partial(live.fork, len(numbers)))
                for copy in copies:
                    stack.push_async_callback(copy.release)
                openers: list[_Open] = [_copy_or_another(copy, live) for copy in copies]
            else:
                openers = [partial(self._replayed, repeated, steps)] * len(numbers)
            played = [
                asyncio.create_task(self._continued(repeated, opener, steps, number))
                for number, opener in zip(numbers, openers, strict=True)
            ]
            try:
                return await asyncio.gather(*played)
            finally:
                for task in played:
                    task.cancel()
                await asyncio.gather(*played, return_exceptions=True)

    async def _answered(self, request: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return the answer to a request that leaves the live instance as it is. Raises LabelFailed."""
        failure = LabelFailed("no attempt was made", "policy")
        for _ in range(self._config.attempts):
            try:
                return await request()
            except SandboxError as error:
                failure = LabelFailed(str(error), error.failure_class.value)
        raise failure

    async def _replayed(self, other: RepeatedEpisode, steps: int) -> AsyncEpisode:
        """Return a fresh instance in which as many steps have been taken."""
        fresh = open_instance(self._client, other.recorded)
        try:
            await fresh.__aenter__()
            repeated = RepeatedEpisode(other.recorded, fresh)
            for turn in repeated.turns[:steps]:
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
        messages, tools = repeated.said, repeated.tools
        while not copy.finished and copy.step_index < self._config.max_turns:
            its_seed = continuation_turn_seed(seed, copy.step_index)
            turn = await self._policy.write_turn(messages, tools, its_seed)
            if turn is None:
                break
            result = await copy.step(turn)
            messages = conversation_after(messages, turn, result)
            tools = tools_after(tools, result)
        return await copy.evaluate()

    def _solved(self, verdict: EvaluateResult) -> float:
        least = self._config.solved_from
        return float(verdict.success if least is None else verdict.score >= least)


def continuation_turn_seed(seed: int, step: int) -> int:
    """Return the seed of a continuation's turn: turns are a stride apart, so that no two sample alike.

    Those of an episode that is sampled for training are ``trainer.engines.seeds.turn_seed``.
    """
    return (seed + _TURN_STRIDE * step) % 2**31


def continuation_seed(seed: int, episode: RecordedEpisode, steps: int, number: int) -> int:
    """Return the seed of one continuation, which depends on nothing but its place."""
    task = f"{episode.environment}/{episode.split}/{episode.task_id}"
    place = f"{seed}/{episode.id}/{task}/{steps}/{number}"
    return int.from_bytes(hashlib.sha256(place.encode()).digest()[:4], "big") % 2**31


def _copy_or_another(copy: AsyncEpisode, live: AsyncEpisode) -> _Open:
    """Return a function that gives the copy, and a new one each time after that."""
    left = [copy]

    async def opener() -> AsyncEpisode:
        return left.pop() if left else (await live.fork(1))[0]

    return opener
