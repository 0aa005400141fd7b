"""An agent's requests to the model and their answers, the same for all dialects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainer.errors import TrainerError

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool


MISCONFIGURED = "misconfigured"
"""Code of a call that no repetition can make good: a plugin of the run failed."""


class CallError(TrainerError):
    """A call that is not answered. The dialects turn it into their own error documents.

    SDKs repeat 409, 429 and 5xx by themselves, where the gateway's headers do not keep them from it.
    """

    def __init__(self, status: int, code: str, detail: str, parameter: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.parameter = parameter
        """The field of the request that is at fault, if one is."""


def sealed() -> CallError:
    """Return the error for a call of a session that takes no more."""
    return CallError(409, "session_sealed", "the episode is over; this session takes no more calls")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to the model."""

    model: str
    """The name that the agent gave; the session decides which model answers."""
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    max_tokens: int | None = None
    """Tokens of the answer; the session's limit holds as well."""
    stop: tuple[str, ...] = ()
    """Texts at which the answer ends. The agent is not shown them; their tokens are trained."""
    one_tool_call: bool = False
    """Whether the answer may have one tool call at most."""
    stream: bool = False
    usage_in_stream: bool = False
    """Whether a stream ends with an event that has the usage alone."""
    asked: Mapping[str, object] = field(default_factory=dict)
    """Sampling settings of the request, which are recorded and not followed: tokens are drawn from the
    distribution that the trainer learns on.
    """
    dialect: str = ""
    """The dialect of the request, for the record."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call."""

    prompt: int
    sampled: int
    cached: int | None = None
    """Tokens of the prompt that the engine took from its prefix cache; None where it does not say."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The model's answer to a call."""

    call_id: str
    """Unique letters and digits, from which the dialects make the ids that they need."""
    created: int
    """Seconds since 1970."""
    message: Message
    cut: bool
    """The answer reached its limit of tokens."""
    usage: Usage
    stop: str | None = None
    """The stop text of the call that ended it, if one did."""
