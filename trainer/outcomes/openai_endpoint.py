"""A judge's endpoint over the ``openai`` client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainer.errors import JudgeFailed

from .judge import Answer
from .openai_client import OpenaiClient

if TYPE_CHECKING:
    from trainer.config.reward import JudgeConfig

    from .judge_prompt import ChatMessage


class OpenaiEndpoint:
    """Implements ``JudgeEndpoint``. Raises ConfigError without the package ``openai``."""

    def __init__(self, config: JudgeConfig, setting: str) -> None:
        """``setting`` is the name of ``config`` in messages, such as ``reward.judge``."""
        self._config = config
        self._client = OpenaiClient(config, "the judge", setting, JudgeFailed)

    async def complete(self, messages: Sequence[ChatMessage]) -> Answer:
        config = self._config
        given: Any = list(messages)
        with self._client.named_errors():
            completion = await self._client.api.chat.completions.create(
                model=config.model,
                messages=given,
                temperature=config.temperature,
                max_tokens=config.max_answer_tokens,
            )
        choices = completion.choices or []
        text = choices[0].message.content if choices else None
        usage = completion.usage
        return Answer(text or "", usage.total_tokens if usage is not None else None)

    async def close(self) -> None:
        await self._client.close()
