"""The official checkers, each on state of its own and with a bounded time.

The multi-turn checker keeps its objects in its module's globals under a name of the caller's choice. Every
evaluation takes a name that was never used before, and removes what was left under it.

Ground truth passes them all, which a test shows of every task. So whatever they raise, or take too long for,
is because of the answer, and the answer is wrong: their own patterns need exponential time for some.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

from sandbox_service.runner.worker.cpu_budget import OverBudget, cpu_budget

from .engine import official

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_turn_state = official("eval_checker.multi_turn_eval.multi_turn_utils")
_turns = official("eval_checker.multi_turn_eval.multi_turn_checker")
_ast = official("eval_checker.ast_eval.ast_checker")
_agentic = official("eval_checker.agentic_eval.agentic_checker")
_languages = official("constants.enums").Language
VERDICT_CPU_S = 5.0
"""CPU time of one verdict; those on solutions take well below a second."""
_names = itertools.count()
_methods: dict[type, list[tuple[str, object]]] = {}


def _members(of: object, predicate: Callable[[object], bool]) -> list[tuple[str, object]]:
    """Return the methods of an object, looked up once a class: the checker asks before each step."""
    kind = type(of)
    if kind not in _methods:
        _methods[kind] = [(name, getattr(kind, name)) for name, _ in inspect.getmembers(of, predicate)]
    return _methods[kind]


_turn_state.inspect = SimpleNamespace(  # type: ignore[attr-defined]
    getmembers=_members, ismethod=inspect.ismethod
)


@dataclass(frozen=True, slots=True)
class CheckerVerdict:
    """A checker's verdict."""

    valid: bool
    error_type: str | None = None
    """The checker's own name for what is wrong; says nothing about ground truth."""


def check_turns(task: JsonObject, history: list[list[list[str]]], truth: list[list[str]]) -> CheckerVerdict:
    """Run the history and the ground truth, and compare state and results after each turn."""
    name = f"evaluation{next(_names)}"
    entry = {
        "id": task["id"],
        "initial_config": task["config"],
        "involved_classes": task["classes"],
    }
    check = functools.partial(_turns.multi_turn_checker, history, truth, entry, task["category"], name)
    try:
        return _judge("multi_turn:checker_", check)
    finally:
        space = vars(_turn_state)
        for key in [key for key in space if key.startswith(f"{name}_")]:
            del space[key]


def makes_needless_calls(history: list[list[list[str]]], truth: list[list[str]]) -> bool:
    """Return whether there are calls in a turn whose ground truth has none."""
    return not _turns.multi_turn_irrelevance_checker(history, truth)["valid"]


def check_calls(task: JsonObject, calls: list[JsonObject], truth: list[JsonObject]) -> CheckerVerdict:
    """Compare calls, each a function's name to its arguments, with the accepted ones."""
    category = task["category"]
    language = {"simple_java": "java", "simple_javascript": "javascript"}.get(category, "python")
    check = functools.partial(
        _ast.ast_checker, task["functions"], calls, truth, _languages(language), category, "model"
    )
    return _judge("ast_checker:", check)


def check_answer(text: str, truth: list[str]) -> CheckerVerdict:
    """Look for one of the accepted answers in a text."""
    return _judge("agentic_checker:", functools.partial(_agentic.agentic_checker, text, truth))


def _judge(who: str, check: Callable[[], JsonObject]) -> CheckerVerdict:
    try:
        with cpu_budget(VERDICT_CPU_S):
            verdict = check()
    except OverBudget:
        return CheckerVerdict(False, f"{who}out_of_time")
    except Exception as error:  # noqa: BLE001  # capture point: a checker raises anything on an odd answer
        return CheckerVerdict(False, f"{who}raised_{type(error).__name__}")
    return CheckerVerdict(
        bool(verdict["valid"]), None if verdict["valid"] else str(verdict.get("error_type"))
    )
