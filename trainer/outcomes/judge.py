"""Outcomes by a judge: a model behind an OpenAI-compatible endpoint that grades an episode by a rubric.

An answer is asked for once: it is kept on disk under the content of its request. Requests count against the
run's budget before they are sent, so that many at once do not exceed it. A failed request, a deadline and an
answer without a score are failures of the class ``judge``, never a reward; a spent budget ends the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakValueDictionary

from local_processes.waiting import Deadline, RetryWaits, retry
from trainer.errors import BudgetSpent, JudgeFailed

from .judge_prompt import ChatMessage, grading_messages, score_in

if TYPE_CHECKING:
    from trainer.config.reward import JudgeConfig
    from trainer.types import Trajectory

    from .judge_store import JudgeStore

_Read = TypeVar("_Read")
_WAITS = RetryWaits(first_s=1.0, longest_s=20.0)
_CHARACTERS = 3
"""Characters of a token, at least on average: prompts are estimated before they are sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's answer."""

    text: str
    tokens: int | None
    """Tokens of prompt and answer, as the endpoint counts them; None if it does not."""


class JudgeEndpoint(Protocol):
    """Sends one request."""

    async def complete(self, messages: Sequence[ChatMessage]) -> Answer:
        """Return the answer. Raises JudgeFailed; ConfigError for a request that will always fail."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Judge:
    """Implements ``OutcomeSource`` with a model."""

    def __init__(
        self,
        config: JudgeConfig,
        rubric: str,
        endpoint: JudgeEndpoint,
        store: JudgeStore,
        waits: RetryWaits = _WAITS,
    ) -> None:
        """``waits`` are those between two attempts."""
        self._config = config
        self._rubric = rubric
        self._endpoint = endpoint
        self._store = store
        self._waits = waits
        self._slots = asyncio.Semaphore(config.concurrency)
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks of the requests that are under way, each for as long as a caller holds it or waits for it."""
        self._reserving = asyncio.Lock()
        self._reserved_tokens = 0

    async def find_outcome(self, trajectory: Trajectory) -> float:
        config = self._config
        messages = grading_messages(
            trajectory, self._rubric, config.least, config.most, config.max_episode_chars
        )
        return await self.ask_judge(messages, lambda answer: score_in(answer, config.least, config.most))

    async def close(self) -> None:
        await self._endpoint.close()
        await self._store.close()

    async def try_once(self, messages: Sequence[ChatMessage], read: Callable[[str], object]) -> None:
        """Send a request whose answer is not kept, to see that the judge can grade at all.

        It counts against the budget; with a spent one nothing is sent, since kept answers may do. Raises
        JudgeFailed; ConfigError.
        """
        with contextlib.suppress(BudgetSpent):
            await self._asked(messages, read)

    async def ask_judge(self, messages: Sequence[ChatMessage], read: Callable[[str], _Read]) -> _Read:
        """Return what ``read`` finds in the answer to a request.

        ``read`` raises JudgeFailed for an answer that is of no use; such an answer is not kept. Raises
        JudgeFailed; BudgetSpent.
        """
        key = self._key(messages)
        # Equal episodes of a group are graded once: the others wait for the answer and find it in the cache.
        lock = self._asking.setdefault(key, asyncio.Lock())
        async with lock:
            known = await self._store.find_answer(key)
            if known is not None:
                return read(known)
            async with self._slots:
                answer, found = await self._asked(messages, read)
            self._store.remember(key, answer)
            return found

    async def _asked(
        self, messages: Sequence[ChatMessage], read: Callable[[str], _Read]
    ) -> tuple[str, _Read]:
        """Ask until there is an answer of use; return it and what was read. Raises JudgeFailed.

        The deadline begins with the first request.
        """

        async def ask() -> tuple[str, _Read]:
            answer = await self._paid(messages)
            return answer.text, read(answer.text)

        config = self._config
        deadline, late = Deadline.after(config.timeout_s), f"the judge at {config.base_url} was not done"
        return await retry(ask, JudgeFailed, deadline, late, attempts=config.attempts, waits=self._waits)

    async def _paid(self, messages: Sequence[ChatMessage]) -> Answer:
        """Send a request within the budget. Raises BudgetSpent."""
        content = sum(len(each["content"]) for each in messages)
        estimate = content // _CHARACTERS + self._config.max_answer_tokens
        await self._reserve(estimate)
        used = estimate
        try:
            answer = await self._endpoint.complete(messages)
            used = answer.tokens if answer.tokens is not None else estimate
        finally:
            self._reserved_tokens -= estimate
            self._store.count_tokens(used)
        return answer

    async def _reserve(self, estimate: int) -> None:
        """Count a request now, and not when its answer is there: others look at the budget meanwhile.

        Raises BudgetSpent.
        """
        config = self._config
        async with self._reserving:
            # As it is now: tokens that are counted while the file is read are not in what is read.
            reserved = self._reserved_tokens
            spent = await self._store.spent()
            if config.max_calls is not None and spent.calls >= config.max_calls:
                raise BudgetSpent(_spent("max_calls", config.max_calls, f"{spent.calls} requests"))
            if config.max_tokens is not None and spent.tokens + reserved + estimate > config.max_tokens:
                detail = f"{spent.tokens} tokens, and the next request may take {estimate}"
                raise BudgetSpent(_spent("max_tokens", config.max_tokens, detail))
            await self._store.add_spent(1, 0)
            self._reserved_tokens += estimate

    def _key(self, messages: Sequence[ChatMessage]) -> str:
        config = self._config
        content = [
            config.base_url,
            config.model,
            config.temperature,
            config.max_answer_tokens,
            list(messages),
        ]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def _spent(setting: str, budget: int, detail: str) -> str:
    return f"the judge's budget judge.{setting}={budget} is spent: {detail}; resume with a larger budget"
