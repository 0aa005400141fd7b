"""Requests and answers of a reward model's HTTP interface."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .note import RewardModelNote

SCORES_PATH = "/v1/scores"
MODEL_PATH = "/v1/model"
HEALTH_PATH = "/health"
MOST_INPUTS = 256
"""Inputs of one request."""
MOST_BODY_BYTES = 32 * 2**20


class WireMessage(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="forbid")

    role: str
    content: str


class ScoreInput(BaseModel):
    """One sequence: its tokens, or messages that the model's own chat template renders."""

    model_config = ConfigDict(extra="forbid")

    token_ids: tuple[Annotated[int, Field(ge=0)], ...] = ()
    ends: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Numbers of tokens after which the model is read; by default after the last one."""
    messages: tuple[WireMessage, ...] = ()

    @model_validator(mode="after")
    def _is_one_of_both(self) -> ScoreInput:
        if bool(self.token_ids) == bool(self.messages):
            raise ValueError("an input has either token_ids or messages")
        if self.ends and self.messages:
            raise ValueError(
                "ends count tokens; with messages the model is read after each of the assistant's"
            )
        if any(end > len(self.token_ids) for end in self.ends):
            raise ValueError(f"an end is beyond the {len(self.token_ids)} tokens")
        return self


class ScoreRequest(BaseModel):
    """Sequences to score."""

    model_config = ConfigDict(extra="forbid")

    inputs: Annotated[tuple[ScoreInput, ...], Field(min_length=1, max_length=MOST_INPUTS)]


class ScoreAnswer(BaseModel):
    """Scores of the inputs, in their order."""

    dimensions: tuple[str, ...]
    outputs: tuple[tuple[tuple[float, ...], ...], ...]
    """For each input and each end one number a dimension, before normalization: the score of a model of
    episodes, and the log-odds of a process reward model.
    """


class ModelAnswer(BaseModel):
    """Description of the served model."""

    note: RewardModelNote
    max_tokens: int | None
    renders_messages: bool
    """Whether it has a chat template."""


class ErrorText(BaseModel):
    """An error."""

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """The body of an answer without scores."""

    error: ErrorText
