"""Translation between our messages and those of the AgentScope Runtime protocol: pure functions.

That protocol opens an episode with exactly two messages, a system prompt and the task, answers each step
with exactly one, and has no field for tools, so that these are part of the system prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sandbox_contract.tool_prompt import tool_prompt

if TYPE_CHECKING:
    from pydantic import JsonValue


Json: TypeAlias = "dict[str, JsonValue]"


def opening_of(
    messages: Sequence[Mapping[str, JsonValue]], tools: Sequence[JsonValue], how_to_act: str
) -> list[JsonValue]:
    """The two opening messages: a system prompt that names the tools, and the task."""
    system = [_text(each) for each in messages if each.get("role") == "system"] or [how_to_act]
    if tools and not any("<tools>" in text for text in system):
        system.append(tool_prompt(tools))
    task = [_text(each) for each in messages if each.get("role") != "system"]
    return [_message("system", system), _message("user", task)]


def answer_of(messages: Sequence[Mapping[str, JsonValue]]) -> list[JsonValue]:
    """The one message that answers a step; answers of several tools follow each other."""
    return [{**_message("user", [_text(each) for each in messages]), "tool_calls": []}]


def action_of(messages: Mapping[str, JsonValue]) -> Json:
    """The assistant message in a step's ``messages`` field; calls may lack OpenAI's ``function`` level."""
    action: Json = {"role": "assistant", "content": messages.get("content") or ""}
    action |= {name: messages[name] for name in ("reasoning_content", "reasoning") if name in messages}
    calls = messages.get("tool_calls")
    if isinstance(calls, list) and calls:
        action["tool_calls"] = [_call(call) for call in calls]
    elif calls:
        action["tool_calls"] = calls
    return action


def declared(schema: Mapping[str, JsonValue], params: Mapping[str, JsonValue]) -> Json:
    """The parameters that an environment's schema knows: these clients send some that only others read.

    In this protocol the step that ends an episode is rewarded with the score, where an environment can.
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


def _message(role: str, texts: Sequence[str]) -> Json:
    return {"role": role, "content": "\n\n".join(text for text in texts if text)}
