"""Multi-turn tasks: calls run on API objects, and a message without a call ends the turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sandbox_service.environments.shared.box.call_answers import answered
from sandbox_service.environments.shared.box.calls import MOST_CALLS, parse_calls
from sandbox_service.runner.world import JsonObject, Outcome, Start

from . import checkers, engine
from .dialogue import Dialogue, Graded, opened
from .prompts import COMPLETED, MORE_FUNCTIONS, NEW_FUNCTIONS, TURNS

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall

    from .dialogue import Options
    from .engine import CallResult
    from .task_files import TaskFiles


_TOO_MANY = f"Error: not run: a message may hold at most {MOST_CALLS} calls."


class MultiTurn(Dialogue):
    """A user's turns, API objects, and a history of what was called in each turn."""

    def __init__(self, files: TaskFiles, task: JsonObject, limits: JsonObject, options: Options) -> None:
        self.files = files
        self.task_id: str = task["id"]
        self.limits = limits
        self.options = options
        self.category: str = task["category"]
        self.turns: list[list[JsonObject]] = task["turns"][:1] if options.is_open_query else task["turns"]
        self.held: dict[str, list[str]] = task.get("held", {})
        self.objects = self._make(task)
        self.history: list[list[list[str]]] = [[]]
        """Calls by turn and message; the last turn is open until ``ended``."""
        self.messages_in_turn = 0
        self.ended = False

    def _make(self, task: JsonObject) -> dict[str, Any]:
        # The task was parsed for us alone, so its configuration may be taken as it is.
        return engine.make_objects(
            task["classes"], task["config"], long_context="long_context" in self.category
        )

    def open(self) -> Start:
        # A text ends a turn: the last one, or one that the user's next turn follows.
        texts = "dialogue" if len(self.turns) > 1 else "last"
        return Start(self._opening(), self._offered(0), {"turns": len(self.turns), "texts": texts})

    def _offered(self, turn: int) -> list[JsonObject]:
        """Return the tools that there are in a turn: those that come later are left out."""
        held = {name for due, names in self.held.items() if int(due) > turn for name in names}
        return [tool for tool in self._tools() if tool["function"]["name"] not in held]

    def _tools(self) -> list[JsonObject]:
        return [tool for name in self.objects for tool in self.files.tools[name]]

    def _opening(self) -> list[JsonObject]:
        return opened(TURNS, self.turns[0])

    def take_turn(self, message: JsonObject) -> Outcome:
        calls = parse_calls(message)
        if not calls:
            return self._end_turn()
        recorded: list[str] = []
        texts = []
        results = []
        for number, call in enumerate(calls):
            result = self._run(call, number, recorded)
            texts.append(result.text)
            results.append({"name": call.name, "succeeded": result.succeeded})
        if recorded:
            self.history[-1].append(recorded)
        self.messages_in_turn += 1
        forced = self.messages_in_turn > self.limits["turn_steps"]
        info = {"turn": len(self.history) - 1, "calls": results}
        return Outcome(answered(calls, texts), truncated=forced, info=info)

    def _run(self, call: ParsedCall, number: int, recorded: list[str]) -> CallResult:
        """Run a call; what the checkers are to run again goes to ``recorded``."""
        if call.problem is not None:
            return engine.CallResult(f"Error: {call.problem}", succeeded=False)
        if number >= MOST_CALLS:
            return engine.CallResult(_TOO_MANY, succeeded=False)
        # One that is held back is not offered, but runs when it is called by name, as in the official runner:
        # the ground truth of a task needs it.
        target = self.objects.get(self.files.owners.get(call.name, ""))
        why = f"there is no function {call.name!r}" if target is None else None
        why = why or engine.refusal(target, call.name, call.arguments)
        if why is not None:
            recorded.append(engine.REFUSED)
            return engine.CallResult(f"Error during execution: {why}", succeeded=False)
        recorded.append(engine.call_text(call.name, call.arguments))
        return engine.call(target, call.name, call.arguments)

    def _end_turn(self) -> Outcome:
        """End the turn, as a message without a call does."""
        reward = self._turn_reward()
        self.messages_in_turn = 0
        number = len(self.history)
        if number == len(self.turns):
            self.ended = True
            said = {"role": "user", "content": COMPLETED}
            return Outcome([said], reward, terminated=True, info={"turn": number - 1})
        self.history.append([])
        messages, info = self._turn_opening(number)
        return Outcome(messages, reward, info={"turn": number, **info})

    def _turn_opening(self, number: int) -> tuple[list[JsonObject], JsonObject]:
        """Return what the user says in a turn after the first, and what else there is to know."""
        messages = [dict(each) for each in self.turns[number]]
        held = self.held.get(str(number))
        if not held:
            return messages, {}
        offered = self._offered(number)
        given = [tool for tool in offered if tool["function"]["name"] in held]
        schemas = "\n".join(json.dumps(tool["function"]) for tool in given)
        text = f"{MORE_FUNCTIONS}\n\n{NEW_FUNCTIONS}\n<tools>\n{schemas}\n</tools>"
        return [*messages, {"role": "user", "content": text}], {"tools": offered}

    def _turn_reward(self) -> float:
        """Return an equal share for each turn up to the first that the checker rejects."""
        if not self.options.step_rewards:
            return 0.0
        done = len(self.history)
        truth = self.files.answer(self.task_id)["truth"][:done]
        if self.limits["strict_irrelevance"] and checkers.makes_needless_calls(self.history, truth):
            return 0.0
        valid = checkers.check_turns(self.files.task(self.task_id), self.history, truth).valid
        return 1.0 / len(self.turns) if valid else 0.0

    def answered_turns(self) -> int:
        """Turns that were ended."""
        return len(self.history) - (not self.ended)

    def grade(self, truth: Any) -> Graded:  # noqa: ANN401
        truth = truth[: len(self.turns)]
        answered_turns = self.answered_turns()
        details: JsonObject = {"turns": len(self.turns), "turns_answered": answered_turns}
        if answered_turns != len(truth):
            return Graded(False, "multi_turn:force_terminated", details)
        needless = checkers.makes_needless_calls(self.history, truth)
        details["needless_calls"] = needless
        judgement = checkers.check_turns(self.files.task(self.task_id), self.history, truth)
        if judgement.valid and needless and self.limits["strict_irrelevance"]:
            return Graded(False, "multi_turn:irrelevance_error:decoder_success", details)
        return Graded(judgement.valid, judgement.error_type, details)
