"""The policy of continuations at an OpenAI-compatible server, over the ``openai`` client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from local_processes.waiting import REQUEST_WAITS, Deadline, RetryWaits, retry
from sandbox_contract.images import chat_messages
from sandbox_contract.messages import Message
from trainer.errors import EngineError
from trainer.outcomes.openai_client import OpenaiClient

if TYPE_CHECKING:
    from openai.types.chat.chat_completion import Choice

    from sandbox_contract.messages import Tool
    from trainer.config.step_labels import ContinuingModelConfig

_TOO_LONG = ("context length", "context_length", "context size", "context window", "too long")


class ServedPolicy:
    """Implements ``ContinuingPolicy``. Raises ConfigError without the package ``openai``."""

    def __init__(self, config: ContinuingModelConfig, waits: RetryWaits = REQUEST_WAITS) -> None:
        """``waits`` are those between two attempts."""
        self._config = config
        self._waits = waits
        self._client = OpenaiClient(config, "the policy's server", "rule.policy", EngineError)

    async def write_turn(
        self, messages: Sequence[Message], tools: Sequence[Tool], seed: int
    ) -> Message | None:
        config = self._config
        return await retry(
            lambda: self._asked(messages, tools, seed),
            EngineError,
            Deadline.after(config.timeout_s),
            f"{self._client.where} gave no turn",
            attempts=config.attempts,
            waits=self._waits,
        )

    async def close(self) -> None:
        await self._client.close()

    async def _asked(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int) -> Message | None:
        """Return the turn; None where the context is full."""
        config, client = self._config, self._client
        given: Any = chat_messages(messages)
        offered: Any = [tool.model_dump(mode="json", exclude_none=True) for tool in tools]
        with client.named_errors():
            try:
                completion = await client.api.chat.completions.create(
                    model=config.model,
                    messages=given,
                    tools=offered or client.omit,
                    temperature=config.temperature,
                    max_tokens=config.max_tokens,
                    seed=seed,
                )
            except client.status_error as error:
                text = str(error).lower()
                if error.status_code in (400, 413, 422) and any(sign in text for sign in _TOO_LONG):
                    return None
                raise
        return _message_of(completion.choices or (), client.where)


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
