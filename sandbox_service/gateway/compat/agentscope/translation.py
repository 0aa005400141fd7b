"""Translate between native requests and results and those of the AgentScope Runtime protocol: pure functions.

That protocol starts an episode with exactly two messages, a system prompt and the task, answers each step
with exactly one, and has no field for tools, so the tools are part of the system prompt. Large steps are
translated in another process, so these functions are at the top of a module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from sandbox_contract.episodes import StepRequest
from sandbox_contract.problems import ErrorCode
from sandbox_contract.tool_prompt import tool_prompt
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.bodies import json_object
from sandbox_service.gateway.compat.errors import MissingFieldError
from sandbox_service.gateway.dispatch import EncodedRequest, encode_request
from sandbox_service.gateway.schema_errors import SchemaError

from .models import CompatOnInstance, CompatRequest, success

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject


Native = TypeVar("Native", bound=BaseModel)


class CounterpartError(ServiceError):
    """An instance waits for its counterpart, which this protocol has no message for."""

    def __init__(self, name: str) -> None:
        detail = f"the episode needs a model that plays its {name!r}, which this protocol has no message for"
        super().__init__(ErrorCode.INVALID_REQUEST, detail)
        self.name = name

    def __reduce__(self) -> tuple[type[CounterpartError], tuple[str]]:
        return (type(self), (self.name,))


def encode_step(request: CompatRequest) -> EncodedRequest:
    """Return the native step of a request. Raises ServiceError."""
    return encode_request(
        native_request(
            StepRequest,
            instance_id=required(request.instance_id, "instance_id"),
            message=action_of(request.messages or {}),
        )
    )


def step_data(reply: bytes) -> JsonValue:
    """Translate the result of a native step. Raises CounterpartError if a counterpart's comes next."""
    result = json_object(reply)
    info = result.get("info")
    details: JsonObject = info if isinstance(info, dict) else {}
    refuse_counterpart(details)
    if result["truncated"]:
        details = {**details, "truncated": True}
    return {
        "state": observation_of(messages_of(result)),
        "reward": result["reward"],
        "is_terminated": bool(result["terminated"] or result["truncated"]),
        "info": details,
    }


def refuse_counterpart(info: Mapping[str, JsonValue]) -> None:
    """Raise CounterpartError if an instance waits for its counterpart: what it shows is not for the agent."""
    if (name := info.get("awaits")) is not None:
        raise CounterpartError(str(name))


def step_body(reply: bytes) -> bytes:
    """Return the body of the protocol's response to a step. Raises CounterpartError, as ``step_data``."""
    return success(step_data(reply))


def native_request(model: type[Native], **fields: object) -> Native:
    """Build a native request from its fields, without those that are None. Raises SchemaError."""
    try:
        return model.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise SchemaError.from_pydantic(errors) from None


def required(value: str | None, name: str) -> str:
    """Return the value of a required field. Raises MissingFieldError if it is empty."""
    if not value:
        raise MissingFieldError(name)
    return value


def instance_id_of(request: CompatRequest) -> str:
    """Return the instance that a request names. Raises SchemaError if that is no id."""
    named = required(request.instance_id, "instance_id")
    return native_request(CompatOnInstance, instance_id=named).instance_id


def messages_of(result: JsonObject) -> list[JsonObject]:
    """Return the messages of a result's observation."""
    observation = result.get("observation")
    messages = observation.get("messages") if isinstance(observation, dict) else None
    return [each if isinstance(each, dict) else {} for each in messages] if isinstance(messages, list) else []


def opening_of(
    messages: Sequence[Mapping[str, JsonValue]], tools: Sequence[JsonValue], action_format: str
) -> list[JsonValue]:
    """Return the two first messages: a system prompt that describes the tools, and the task."""
    system = [_text(each) for each in messages if each.get("role") == "system"] or [action_format]
    if tools and not any("<tools>" in text for text in system):
        system.append(tool_prompt(tools))
    task = [_text(each) for each in messages if each.get("role") != "system"]
    return [_message("system", system), _message("user", task)]


def observation_of(messages: Sequence[Mapping[str, JsonValue]]) -> list[JsonValue]:
    """Return the one message of an observation; results of several tools are joined."""
    return [{**_message("user", [_text(each) for each in messages]), "tool_calls": []}]


def action_of(messages: Mapping[str, JsonValue]) -> JsonObject:
    """Return the assistant message of a step's ``messages``; calls may lack OpenAI's ``function`` level."""
    action: JsonObject = {"role": "assistant", "content": messages.get("content") or ""}
    action |= {name: messages[name] for name in ("reasoning_content", "reasoning") if name in messages}
    calls = messages.get("tool_calls")
    if isinstance(calls, list) and calls:
        action["tool_calls"] = [_call(call) for call in calls]
    elif calls:
        action["tool_calls"] = calls
    return action


def declared_params(schema: Mapping[str, JsonValue], params: Mapping[str, JsonValue]) -> JsonObject:
    """Return the parameters that the environment declares, since clients send others too.

    In this protocol the reward of the last step is the score, if the environment can do that.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    wanted = {name: value for name, value in params.items() if name in known}
    if "final_reward" in known and not wanted.get("step_rewards"):
        wanted.setdefault("final_reward", True)
    return wanted


def _call(call: JsonValue) -> JsonValue:
    if not isinstance(call, dict) or "function" in call or "name" not in call:
        return call
    function: JsonValue = {"name": call["name"], "arguments": call.get("arguments") or "{}"}
    return {"id": call.get("id"), "type": "function", "function": function}


def _text(message: Mapping[str, JsonValue]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _message(role: str, texts: Sequence[str]) -> JsonObject:
    return {"role": role, "content": "\n\n".join(text for text in texts if text)}
