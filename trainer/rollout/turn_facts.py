"""What a step told about a turn, as the named numbers that ``Turn.terms`` holds.

    actions       actions of the message that the environment understood
    succeeded     of them, those that succeeded
    well_formed   1 where the turn held an action and all of it was understood, else 0
    files         1 where a file was made or edited
    progress      how well the episode stands, by the environment's own measure
    env.NAME      the environment's shaped terms

What an environment does not tell is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.chat.tool_formats import TOOL_FORMATS
from trainer.chat.tool_formats.base import arguments_of

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.episodes import StepResult
    from sandbox_contract.messages import Message


_EDITOR = "str_replace_editor"
_EDITS = frozenset({"create", "insert", "str_replace"})


def turn_facts(message: Message, result: StepResult) -> dict[str, float]:
    """The facts of one assistant's message and the step that it led to."""
    facts = {f"env.{name}": value for name, value in result.reward_terms.items()}
    actions = _actions(result.info)
    if actions is not None:
        understood = [action for action in actions if action.get("tool") or action.get("name")]
        facts["actions"] = float(len(understood))
        facts["succeeded"] = float(sum(action.get("succeeded") is True for action in understood))
        facts["well_formed"] = float(bool(actions) and len(understood) == len(actions))
        facts["files"] = float(result.reward_terms.get("file_made", 0.0) > 0 or _edited(message, understood))
    elif message.tool_calls:
        facts["well_formed"] = 1.0
    for name in ("progress", "score"):
        measure = result.info.get(name)
        if isinstance(measure, int | float) and not isinstance(measure, bool):
            facts["progress"] = float(measure)
            break
    return facts


def _actions(info: JsonObject) -> list[JsonObject] | None:
    """The step's actions, in the words of those environments that tell them."""
    told = info.get("actions", info.get("calls"))
    if not isinstance(told, list):
        return None
    return [action for action in told if isinstance(action, dict)]


def _edited(message: Message, understood: list[JsonObject]) -> bool:
    """Whether the editor changed a file: the step tells that it succeeded, the message what it did."""
    if not any(action.get("tool") == _EDITOR and action.get("succeeded") is True for action in understood):
        return False
    read = message if message.tool_calls else TOOL_FORMATS["hermes"].parse(message.content or "")
    given = [arguments_of(call) for call in read.tool_calls or () if call.function.name == _EDITOR]
    return any(isinstance(words, dict) and words.get("command") in _EDITS for words in given)
