"""The policy of continuations at an OpenAI-compatible server, over the ``openai`` client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from local_processes.waiting import exponential_wait_s
from sandbox_contract.messages import Message
from trainer.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

    from sandbox_contract.messages import Tool
    from trainer.config.step_labels import ContinuingModelConfig

_MENDED_BY_NO_ATTEMPT = (401, 403, 404)
_TOO_LONG = ("context length", "context_length", "context size", "context window", "too long")
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0


class ServedPolicy:
    """Implements ``ContinuingPolicy``. Raises ConfigError without the package ``openai``."""

    def __init__(self, config: ContinuingModelConfig) -> None:
        try:
            import openai
        except ImportError as error:
            raise ConfigError(
                f"continuations by a served model need the package openai ({error}); install it with: "
                "pip install 'training-sandbox[model-policy]'"
            ) from error
        self._config = config
        self._openai = openai
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url,
            # A server without keys takes any, and the client wants one.
            api_key=os.environ.get(config.api_key_variable) or "none",
            timeout=config.timeout_s,
            max_retries=0,
        )

    async def write_turn(
        self, messages: Sequence[Message], tools: Sequence[Tool], seed: int
    ) -> Message | None:
        timeout_s = self._config.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._asked(messages, tools, seed)
        except TimeoutError:
            raise EngineError(f"the policy's server gave no turn in {timeout_s:g} s") from None

    async def close(self) -> None:
        await self._client.close()

    async def _asked(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Message | None:
        config, where = self._config, f"the policy's server at {self._config.base_url}"
        given: Any = [message.model_dump(mode="json", exclude_none=True) for message in messages]
        offered: Any = [tool.model_dump(mode="json", exclude_none=True) for tool in tools]
        problem = EngineError(f"{where} was not asked")
        for attempt in range(1, config.attempts + 1):
            try:
                completion = await self._client.chat.completions.create(
                    model=config.model,
                    messages=given,
                    tools=offered or self._openai.omit,
                    temperature=config.temperature,
                    max_tokens=config.max_tokens,
                    seed=seed,
                )
                return _message_of(completion.choices or (), where)
            except self._openai.APIStatusError as error:
                text = str(error)
                if error.status_code in (400, 413, 422) and any(sign in text.lower() for sign in _TOO_LONG):
                    return None
                sentence = f"{where} answered {error.status_code}: {text[:500]}"
                if error.status_code in _MENDED_BY_NO_ATTEMPT:
                    raise ConfigError(f"{sentence}; check rule.policy") from error
                problem = EngineError(sentence)
            except self._openai.OpenAIError as error:
                problem = EngineError(f"{where} cannot be asked: {type(error).__name__}: {error}")
            except EngineError as error:
                problem = error
            if attempt < config.attempts:
                await asyncio.sleep(exponential_wait_s(_FIRST_WAIT_S, _LONGEST_WAIT_S, attempt))
        raise problem


def _message_of(choices: Sequence[Choice], where: str) -> Message:
    if not choices:
        raise EngineError(f"{where} answered without a message")
    said = choices[0].message.model_dump(mode="json", exclude_none=True)
    body = {name: said[name] for name in ("role", "content", "tool_calls") if said.get(name)}
    try:
        return Message.model_validate({"role": "assistant", "content": "", **body})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise EngineError(f"{where} answered with an invalid message: {problem}") from None
