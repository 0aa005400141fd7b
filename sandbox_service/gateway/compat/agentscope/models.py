"""Models of the AgentScope Runtime protocol.

Every request has the same body; unknown fields are ignored and nulls accepted, since the clients send both.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints

from sandbox_contract.base import InstanceId
from sandbox_service.gateway.responses import HttpResponse


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class CompatRequest(_Lenient):
    """The body of every route of the protocol."""

    env_type: str | None = "appworld"
    """The environment; used by get_env_profile and create only."""
    task_id: str | None = None
    """The task; used by create only."""
    instance_id: str | None = None
    """The instance; optional for create."""
    messages: dict[str, JsonValue] | None = None
    """The action of a step: one assistant message."""
    params: dict[str, JsonValue] | None = None
    """Parameters of the operation."""


Name = Annotated[str, StringConstraints(min_length=1)]


# The next four models only document what an operation needs. All bodies are parsed as CompatRequest, since
# the protocol answers 400 and not 422 for a missing field.
class CompatProfile(CompatRequest):
    """The body of get_env_profile."""

    env_type: Name = "appworld"
    """The environment."""


class CompatCreate(CompatProfile):
    """The body of create."""

    task_id: Name
    """The task."""
    instance_id: InstanceId | Literal[""] | None = None
    """An id of the caller's choice; the service makes one when missing."""


class CompatOnInstance(CompatRequest):
    """The body of step, evaluate and get_info."""

    instance_id: InstanceId
    """The instance."""


class CompatRelease(CompatRequest):
    """The body of release, which finds no instance of a malformed id."""

    instance_id: Name
    """The instance."""


class CompatReply(_Lenient):
    """The response of every route of the protocol."""

    success: bool
    """False only for the release of an unknown instance."""
    data: JsonValue
    """The result."""


class ManagerCreate(_Lenient):
    """Request a sandbox for a box class."""

    sandbox_type: str
    """The environment."""
    meta: dict[str, JsonValue] | None = None
    """Accepted and ignored."""


class ManagerCall(_Lenient):
    """Call a method of a box class."""

    identity: str
    """The sandbox id."""
    tool_name: Literal[
        "create_instance", "get_task_ids", "get_env_profile", "step", "evaluate", "release_instance"
    ]
    """The method."""
    arguments: dict[str, JsonValue] | None = None
    """Its arguments by name."""


class ManagerRelease(_Lenient):
    """Release the sandbox of a box class."""

    identity: str
    """The sandbox id."""


class ManagerReply(_Lenient):
    """The response of the manager's routes."""

    data: JsonValue
    """The sandbox id, the method's result, or whether a sandbox was released."""


def success(data: JsonValue) -> bytes:
    """Return the body of a successful response of the environment routes."""
    return _compact({"success": True, "data": data})


def json_response(value: JsonValue) -> HttpResponse:
    """Return a successful response with a JSON body."""
    return HttpResponse(200, _compact(value))


def _compact(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
