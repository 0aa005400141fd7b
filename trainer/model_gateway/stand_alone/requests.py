"""Bodies of the control routes' requests. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue

from trainer.model_gateway.prompts import PromptPolicy

_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class LimitsRequest(_Request):
    """Limits of a session; what is left out has the gateway's default."""

    turns: _Count | None = None
    """Answered calls."""
    context_tokens: _Count | None = None
    """Tokens of one call, prompt and sampled; the engine's own limit holds as well."""
    turn_tokens: _Count | None = None
    """Sampled tokens of one call."""
    sampled_tokens: _Count | None = None
    """Sampled tokens of the whole session."""
    seconds: _Seconds | None = None
    """From the session's opening on."""
    turn_seconds: _Seconds | None = None
    """Sampling time of one call."""
    concurrent_calls: _Count | None = None
    """Calls in progress."""


class OpenRequest(_Request):
    """``POST /sessions``."""

    limits: LimitsRequest = LimitsRequest()
    prompts: PromptPolicy | None = None
    """``splice`` or ``render``; the command's choice if left out."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """Seed of the session's sampling; random if left out."""
    metadata: dict[str, JsonValue] = {}
    """Returned with the session and written to the export, unread."""


class RewardRequest(_Request):
    """``POST /sessions/{id}/reward``."""

    reward: FiniteFloat
    """Added to what the call has."""
    terms: dict[str, FiniteFloat] = {}
    """Named parts of it."""
    call_id: str | None = None
    """Id of an answer or of a tool call in it; the call answered last if left out."""
