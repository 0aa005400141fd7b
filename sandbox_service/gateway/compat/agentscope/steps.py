"""Steps of the AgentScope Runtime protocol: pure functions, since large ones are translated elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from sandbox_contract.episodes import StepRequest
from sandbox_service.gateway.bodies import json_object
from sandbox_service.gateway.compat.refusals import MissingFieldError
from sandbox_service.gateway.refusals import SchemaError
from sandbox_service.gateway.verbs import Call, call_of

from .messages import action_of, answer_of
from .models import CompatRequest, success

if TYPE_CHECKING:
    from pydantic import JsonValue

    from .messages import Json


Native = TypeVar("Native", bound=BaseModel)


def step_call(request: CompatRequest) -> Call:
    """The native step. Raises ServiceError."""
    return call_of(
        native_request(
            StepRequest,
            instance_id=required(request.instance_id, "instance_id"),
            message=action_of(request.messages or {}),
        )
    )


def step_data(reply: bytes) -> JsonValue:
    """Translate a native step's result into the protocol's."""
    result = json_object(reply)
    info = result.get("info")
    details: Json = info if isinstance(info, dict) else {}
    if result["truncated"]:
        details = {**details, "truncated": True}
    return {
        "state": answer_of(messages_of(result)),
        "reward": result["reward"],
        "is_terminated": bool(result["terminated"] or result["truncated"]),
        "info": details,
    }


def step_answer(reply: bytes) -> bytes:
    """Return the body of the protocol's answer to a step."""
    return success(step_data(reply))


def native_request(model: type[Native], **fields: object) -> Native:
    """Build a native request from its fields. Raises SchemaError."""
    try:
        return model.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise SchemaError.of(errors) from None


def required(value: str | None, name: str) -> str:
    """The value of a field that the operation needs. Raises MissingFieldError."""
    if not value:
        raise MissingFieldError(name)
    return value


def messages_of(result: Json) -> list[Json]:
    """The messages of a result's observation."""
    observation = result.get("observation")
    messages = observation.get("messages") if isinstance(observation, dict) else None
    return [each if isinstance(each, dict) else {} for each in messages] if isinstance(messages, list) else []
