"""A judge's endpoint over the ``openai`` client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainer.errors import ConfigError, JudgeFailed

from .judge import Answer

if TYPE_CHECKING:
    from trainer.config.reward import JudgeConfig

    from .judge_prompt import ChatMessage

_MENDED_BY_NO_ATTEMPT = (401, 403, 404)


class OpenaiEndpoint:
    """Implements ``JudgeEndpoint``. Raises ConfigError without the package ``openai``."""

    def __init__(self, config: JudgeConfig) -> None:
        try:
            import openai
        except ImportError as error:
            raise ConfigError(
                f"reward.kind=judge needs the package openai ({error}); install it with: "
                "pip install 'training-sandbox[model-policy]'"
            ) from error
        self._config = config
        self._openai = openai
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url,
            # An endpoint without keys takes any, and the client wants one.
            api_key=os.environ.get(config.api_key_variable) or "none",
            timeout=config.timeout_s,
            max_retries=0,
        )

    async def complete(self, messages: Sequence[ChatMessage]) -> Answer:
        config, where = self._config, f"the judge at {self._config.base_url}"
        given: Any = list(messages)
        try:
            completion = await self._client.chat.completions.create(
                model=config.model,
                messages=given,
                temperature=config.temperature,
                max_tokens=config.max_answer_tokens,
            )
        except self._openai.APIStatusError as error:
            sentence = f"{where} answered {error.status_code}: {str(error)[:500]}"
            if error.status_code in _MENDED_BY_NO_ATTEMPT:
                raise ConfigError(f"{sentence}; check reward.judge") from error
            raise JudgeFailed(sentence) from error
        except self._openai.OpenAIError as error:
            raise JudgeFailed(f"{where} cannot be asked: {type(error).__name__}: {error}") from error
        choices = completion.choices or []
        text = choices[0].message.content if choices else None
        usage = completion.usage
        return Answer(text or "", usage.total_tokens if usage is not None else None)

    async def close(self) -> None:
        await self._client.close()
