"""Tools that a step tells, where they are others from there on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox_client import InvalidResponse
from sandbox_client.errors import Failure
from sandbox_contract.messages import Tool
from sandbox_contract.problems import FailureClass

if TYPE_CHECKING:
    from sandbox_contract.episodes import StepResult


def told_tools(result: StepResult) -> tuple[Tool, ...] | None:
    """The tools from here on, where a step tells other ones. Raises InvalidResponse for what is no tool."""
    told = result.info.get("tools")
    if not isinstance(told, list):
        return None
    try:
        return tuple(Tool.model_validate(each) for each in told)
    except ValidationError as error:
        detail = f"info.tools of a step holds what is no tool: {error.errors(include_url=False)[0]['msg']}"
        raise InvalidResponse(Failure(detail, "invalid_response", FailureClass.SANDBOX)) from error
