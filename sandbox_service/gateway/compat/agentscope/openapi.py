"""Document the AgentScope routes in the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.gateway.compat.errors import CompatFailure
from sandbox_service.gateway.openapi import Responses, documented_route

from .models import (
    CompatCreate,
    CompatOnInstance,
    CompatProfile,
    CompatRelease,
    CompatReply,
    ManagerCall,
    ManagerCreate,
    ManagerRelease,
    ManagerReply,
)

if TYPE_CHECKING:
    from fastapi.routing import APIRoute


_FAILURES: Responses = {
    400: {"description": "A missing field, or an unknown environment, split, task or instance."},
    401: {"description": "A valid API key is required."},
    403: {"description": "The caller is not allowed to do this."},
    409: {"description": "The instance is busy or finished, or its id is taken."},
    410: {"description": "The instance was lost with its sandbox."},
    413: {"description": "The body is too large."},
    422: {"description": "The body does not match its schema."},
    429: {"description": "No capacity now; retry after Retry-After."},
    500: {"description": "The service, the task or the grader failed."},
    503: {"description": "No sandbox now; retry after Retry-After."},
    504: {"description": "A deadline passed."},
    507: {"description": "The service has no storage left."},
}
_PATHS: tuple[tuple[str, str, type, type], ...] = (
    ("/get_env_profile", "List the tasks of params.split", CompatProfile, CompatReply),
    ("/create", "Start an episode", CompatCreate, CompatReply),
    ("/step", "Take one assistant message", CompatOnInstance, CompatReply),
    ("/evaluate", "Grade the instance", CompatOnInstance, CompatReply),
    ("/get_info", "Return the state of the instance", CompatOnInstance, CompatReply),
    ("/release", "End the instance", CompatRelease, CompatReply),
    ("/mgr/create_from_pool", "Issue a sandbox id", ManagerCreate, ManagerReply),
    ("/mgr/call_tool", "Call a method of a box class", ManagerCall, ManagerReply),
    ("/mgr/release", "End the instances of a sandbox", ManagerRelease, ManagerReply),
)


def compat_documentation() -> list[APIRoute]:
    """Return the documented routes, one for each path of the protocol."""
    failures = {status: {**response, "model": CompatFailure} for status, response in _FAILURES.items()}
    return [
        documented_route(
            path,
            "compat" + path.replace("/", "_"),
            request,
            result,
            dict(failures),
            summary=summary,
            description="AgentScope Runtime and AgentEvolver protocol.",
            tags=["compatibility"],
        )
        for path, summary, request, result in _PATHS
    ]
