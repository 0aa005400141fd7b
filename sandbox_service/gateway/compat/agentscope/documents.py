"""The compatibility routes' part of the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox_service.gateway.compat.refusals import CompatFailure
from sandbox_service.gateway.documents import documented_route

from .models import (
    CompatReply,
    CompatRequest,
    ManagerCall,
    ManagerCreate,
    ManagerRelease,
    ManagerReply,
)

if TYPE_CHECKING:
    from fastapi.routing import APIRoute


_FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"description": "A missing field, or an unknown environment, split, task or instance."},
    401: {"description": "A valid API key is required."},
    403: {"description": "The caller may not do that."},
    409: {"description": "The instance is busy or finished, or its id is taken."},
    410: {"description": "The instance was lost with its sandbox."},
    413: {"description": "The body is too large."},
    422: {"description": "The body does not match its schema."},
    429: {"description": "No room now; wait for Retry-After."},
    500: {"description": "The service, the task or the grader failed."},
    503: {"description": "No sandbox now; wait for Retry-After."},
    504: {"description": "A deadline passed."},
    507: {"description": "The service has no storage left."},
}
_PATHS: tuple[tuple[str, str, type, type], ...] = (
    ("/get_env_profile", "List the tasks of params.split", CompatRequest, CompatReply),
    ("/create", "Start an episode", CompatRequest, CompatReply),
    ("/step", "Take one assistant message", CompatRequest, CompatReply),
    ("/evaluate", "Grade the instance", CompatRequest, CompatReply),
    ("/get_info", "Tell about the instance", CompatRequest, CompatReply),
    ("/release", "End the instance", CompatRequest, CompatReply),
    ("/mgr/create_from_pool", "Name a sandbox", ManagerCreate, ManagerReply),
    ("/mgr/call_tool", "Call a method of a box class", ManagerCall, ManagerReply),
    ("/mgr/release", "End the instances of a sandbox", ManagerRelease, ManagerReply),
)


def compat_documentation() -> list[APIRoute]:
    """Routes for the document, one for each path of the protocol."""
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
