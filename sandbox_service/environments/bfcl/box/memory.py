"""Memory tasks: conversations in which the agent may take notes, then a question about what was said.

Each conversation opens with a system prompt and what the agent's memory shows by itself, and is meant to be
read without the earlier ones: the step that opens it says ``new_session``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from sandbox_service.environments.shared.box.calls import parse_calls, plain_text
from sandbox_service.runner.world import JsonObject, Outcome, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from . import checkers, engine
from .dialogue import Graded, opened
from .prompts import TURNS
from .turns import MultiTurn

if TYPE_CHECKING:
    from .dialogue import Options
    from .task_files import TaskFiles


_prompts = engine.official("constants.default_prompts")
_TEMPLATES = {
    "MemoryAPI_kv": _prompts.MEMORY_BACKEND_INSTRUCTION_CORE_ARCHIVAL,
    "MemoryAPI_rec_sum": _prompts.MEMORY_BACKEND_INSTRUCTION_UNIFIED,
}


class MemoryTask(MultiTurn):
    """Turns of several conversations, one memory, and a last answer."""

    def __init__(self, files: TaskFiles, task: JsonObject, limits: JsonObject, options: Options) -> None:
        sessions = [] if options.memory is not None else files.sessions[task["scenario"]]
        spoken = [[{"role": "user", "content": said}] for session in sessions for said in session]
        lengths = [*map(len, sessions), 1]
        self.openings = frozenset(sum(lengths[:number]) for number in range(len(lengths)))
        """Turns with which a conversation opens."""
        self.scenario: str = task["scenario"]
        self.last_text = ""
        # The question is the last turn, and a run over several categories has the same parameters for all.
        options = dataclasses.replace(options, is_open_query=False)
        super().__init__(files, {**task, "turns": [*spoken, *task["turns"]]}, limits, options)

    def _make(self, task: JsonObject) -> dict[str, Any]:
        (name,) = task["classes"]
        empty = engine.memory_of(engine.make_memory(name, {}))
        given = empty if self.options.memory is None else self.options.memory
        if not _fits(given, empty):
            detail = f"memory is an object with {', '.join(empty)}, such as an evaluation gives it"
            raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
        return engine.make_memory(name, given)

    def _opening(self) -> list[JsonObject]:
        return self._session(0)

    def _session(self, turn: int) -> list[JsonObject]:
        """Return the opening of a conversation."""
        ((name, memory),) = self.objects.items()
        setting = _TEMPLATES[name].format(
            scenario_setting=_prompts.MEMORY_AGENT_SETTINGS[self.scenario],
            memory_content=engine.visible(memory),
        )
        return opened(f"{setting}\n\n{TURNS}", self.turns[turn])

    def take_turn(self, message: JsonObject) -> Outcome:
        if not parse_calls(message):
            self.last_text = plain_text(message.get("content"))
        return super().take_turn(message)

    def _turn_opening(self, number: int) -> tuple[list[JsonObject], JsonObject]:
        if number in self.openings:
            return self._session(number), {"new_session": True}
        return super()._turn_opening(number)

    def _turn_reward(self) -> float:
        return 0.0

    def grade(self, truth: Any) -> Graded:  # noqa: ANN401
        details: JsonObject = {
            "turns": len(self.turns),
            "turns_answered": self.answered_turns(),
            "memory": engine.memory_of(self.objects),
        }
        if self.answered_turns() != len(self.turns):
            return Graded(False, "agentic:no_last_message", details)
        judgement = checkers.check_answer(self.last_text, truth)
        return Graded(judgement.valid, judgement.error_type, details)


def _fits(given: JsonObject, empty: JsonObject) -> bool:
    """Return whether a memory's content has the form of an empty one's."""
    if set(given) != set(empty):
        return False
    for name, value in given.items():
        if type(value) is not type(empty[name]):
            return False
        if isinstance(value, dict) and not all(isinstance(each, str) for each in value.values()):
            return False
    return True
