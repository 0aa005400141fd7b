"""Episodes of several turns for TRL's GRPOTrainer, by its own ``rollout_func``: part of ``trl_grpo``.

All episodes of a step go hand in hand: TRL samples a turn of each in one batch, the service takes the steps
of all of them at a time, and what it answers is appended outside of the loss. That is the best that a trainer
that samples in batches can do here: its own loop over tools steps one episode after another.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from sandbox_client import AsyncEpisode, AsyncSandboxClient, ClientLimits
from trainer.chat import ChatTokenizer
from trainer.engines.generation import Finish, Generation
from trainer.rollout.conversation import Conversation


class TurnsRollout:
    """Plays the episodes of a step; call it as TRL calls a ``rollout_func``."""

    def __init__(
        self, url: str, chat: ChatTokenizer, tasks: Mapping[str, tuple[str, str]], turns: int, context: int
    ) -> None:
        """``tasks``: environment and task id by prompt."""
        self._url = url
        self._chat = chat
        self._tasks = tasks
        self._turns = turns
        self._context = context
        self._runner = asyncio.Runner()
        self._client: AsyncSandboxClient | None = None
        self.sandbox_s = 0.0
        """In the service, of the last step."""

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        self.sandbox_s = 0.0
        episodes = self._together([self._open(*self._tasks[prompt]) for prompt in prompts])
        conversations = []
        for episode in episodes:
            conversation = Conversation(self._chat, self._context)
            conversation.begin(episode.observation.messages, episode.tools)
            conversations.append(conversation)
        openings = [len(conversation.prompt) for conversation in conversations]
        playing = list(range(len(prompts)))
        for _ in range(self._turns):
            given = [list(conversations[index].prompt) for index in playing]
            said, _ = trainer._generate_single_turn(given, None, {}, 1)
            messages = [
                conversations[index].add_turn(_generation(ids))
                for index, ids in zip(playing, said, strict=True)
            ]
            results = self._together(
                [episodes[index].step(message) for index, message in zip(playing, messages, strict=True)]
            )
            for index, result in zip(list(playing), results, strict=True):
                if result.terminated or result.truncated:
                    playing.remove(index)
                else:
                    conversations[index].add_observation(result.observation.messages)
            playing = [index for index in playing if conversations[index].room()]
            if not playing:
                break
        scores = self._together([_graded(episode) for episode in episodes])
        segments = [conversation.segments()[0] for conversation in conversations]
        return {
            "prompt_ids": [
                list(segment.token_ids[:opening]) for segment, opening in zip(segments, openings, strict=True)
            ],
            "completion_ids": [
                list(segment.token_ids[opening:]) for segment, opening in zip(segments, openings, strict=True)
            ],
            "logprobs": None,
            "env_mask": [
                [int(sampled) for sampled in segment.loss_mask[opening:]]
                for segment, opening in zip(segments, openings, strict=True)
            ],
            "score": scores,
        }

    def close(self) -> None:
        """Let go of the client and its loop."""
        if self._client is not None:
            self._runner.run(self._client.aclose())
        self._runner.close()

    def _together(self, calls: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        began = time.perf_counter()
        try:
            return self._runner.run(_gathered(calls))
        finally:
            self.sandbox_s += time.perf_counter() - began

    async def _open(self, environment: str, task_id: str) -> AsyncEpisode:
        if self._client is None:
            self._client = AsyncSandboxClient(self._url, limits=ClientLimits(in_flight=256, creating=64))
        return await self._client.episode(environment, task_id).__aenter__()


def score_of(completions: Sequence[object], score: Sequence[float], **_: Any) -> list[float]:
    """Return the scores of the episodes, as TRL's reward function."""
    return list(score)


def _generation(token_ids: Sequence[int]) -> Generation:
    ids = tuple(int(token) for token in token_ids)
    return Generation(ids, (0.0,) * len(ids), Finish.STOP, ())


async def _gathered(calls: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    return list(await asyncio.gather(*calls))


async def _graded(episode: AsyncEpisode) -> float:
    try:
        return (await episode.evaluate()).score
    finally:
        await episode.release()
