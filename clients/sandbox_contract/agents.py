"""Messages between a trainer and an agent about the agent's episode.

The agent never sees rewards: the environment's answer is all that it learns of a step.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from .base import JsonObject
from .messages import Message, Tool

__all__ = ["AgentEnd", "AgentStep", "AgentStepResult", "AgentTask"]


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class AgentTask(_Document):
    """Data that an agent gets at the start."""

    base_url: str
    """Address of the model for OpenAI's SDK, with ``/v1``."""
    model: str
    """Name of the model."""
    episode_url: str
    """Address of the episode."""
    messages: tuple[Message, ...]
    """The opening messages: a system prompt, where there is one, and the task."""
    tools: tuple[Tool, ...] = ()
    """The environment's tools."""
    info: JsonObject = {}
    """Details of the environment: difficulty, category, limits."""


class AgentStep(_Document):
    """An assistant message for the environment."""

    message: Message
    """The message; its role is ``assistant``."""
    tool_call_id: str | None = None
    """The tool call of the model that led to this step, if the message does not have it."""


class AgentStepResult(_Document):
    """The environment's answer to a step, without its reward."""

    messages: tuple[Message, ...]
    """Messages to append to the conversation."""
    finished: bool
    """The episode has ended."""
    tools: tuple[Tool, ...] | None = None
    """The tools from now on, where they changed."""
    new_session: bool = False
    """The messages begin a new conversation with the user."""


class AgentEnd(_Document):
    """The end of an agent that the trainer did not start itself."""

    error: str | None = None
    """Description of the failure, if the agent failed."""
