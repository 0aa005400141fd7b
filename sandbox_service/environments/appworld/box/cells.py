"""Run one cell of the agent: AppWorld's checks, the execution in the session, and AppWorld's answer.

The checks are AppWorld's own. They are a courtesy to the model, not a boundary; the boundary is that the
cell runs in another process under another user id.
"""

from __future__ import annotations

import ast
import base64
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from . import importing  # noqa: F401  # isort: skip  # before AppWorld
import appworld
from appworld.common.safety_guard import SafetyGuard

from .values import decode

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent
    from sandbox_service.wire.json_types import JsonObject

    from .engine import AppWorldEngine


ARCHIVE = "agent_packages.zip"
"""Modules that a cell may import beside the standard library and AppWorld's package."""
_FAILED = "Execution failed. Traceback:\n"
_LONGEST_CODE = 200_000
_LONGEST_ANSWER = 7 << 20
_DEEPEST_CHAIN = 4
_MARGIN_S = 1.0
_CELL = (
    "from sandbox_service.environments.appworld.box.notebook import run\nrun({code!r}, {timeout_s}, {most})\n"
)


def read_preamble() -> str:
    """Return the cell that AppWorld opens its notebooks with, read from its source."""
    tree = ast.parse(Path(appworld.__file__).with_name("environment.py").read_text(encoding="utf-8"))
    imports = prints = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TRUE_AVAILABLE_IMPORTS":
            imports = ast.literal_eval(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dedent" and not prints:
            prints = ast.literal_eval(node.args[0])
    if not (imports and prints):
        raise RuntimeError("AppWorld's preamble is not where it was")
    return imports + "\n\n" + textwrap.dedent(prints)


class Cells:
    """Runs the cells of one instance."""

    def __init__(self, engine: AppWorldEngine, agent: Agent, preamble: str, most: int) -> None:
        self._engine = engine
        self._agent = agent
        self._preamble = preamble
        self._most = most
        self.moment = ""

    def run(self, code: str, timeout_s: int, wall_timeout_s: float) -> str:
        """Return AppWorld's answer to a cell; whatever the cell does is an answer, not an error here.

        After ``timeout_s`` of its time the cell is interrupted, a moment later its session is ended. It is an
        error when the machine kept it from that time for ``wall_timeout_s``.
        """
        refusal = _refusal(code)
        if refusal is not None:
            return refusal
        self._engine.begin_execution()
        timeout_s = max(1, min(timeout_s, int(wall_timeout_s - _MARGIN_S)))
        cell = _CELL.format(code=code.strip(), timeout_s=timeout_s, most=self._most)
        result = self._agent.python(cell, timeout_s + _MARGIN_S, 4 * self._most, self._serve, wall_timeout_s)
        if result.exit_code is None:
            what = "timed out" if result.timed_out else "ended its Python process"
            return f"{_FAILED}Exception: Execution {what}. All variables are lost; the apps are as they were."
        return result.output if result.exit_code == 0 else _FAILED + result.output

    def _serve(self, request: JsonObject) -> JsonObject:
        """Answer a question of the session, which may be anything."""
        what = request.get("op")
        if what == "prelude":
            apis = self._engine.apis
            return {"apis": apis, "preamble": self._preamble, "moment": self.moment, "seed": 100}
        if what == "packages":
            return {"archive": base64.b64encode(_archive()).decode()}
        if what == "call":
            return _bounded(self._call(request))
        return _raised(ValueError("no such question"))

    def _call(self, request: JsonObject) -> JsonObject:
        try:
            arguments = decode(request.get("arguments"))
            if not isinstance(arguments, dict):
                return _raised(ValueError("arguments are a dictionary"))
            app, api = str(request.get("app")), str(request.get("api"))
            answer = self._engine.call(app, api, arguments, wrapped=bool(request.get("wrapped")))
        except Exception as error:  # noqa: BLE001  # whatever AppWorld raises is the agent's to see
            return _raised(error)
        return {"value": answer.value, "printed": answer.printed}


def _archive() -> bytes:
    return Path(appworld.__file__).parent.with_name(ARCHIVE).read_bytes()


def _refusal(code: str) -> str | None:
    """Return why AppWorld does not run a cell."""
    if len(code) > _LONGEST_CODE:
        return f"{_FAILED}The code is longer than {_LONGEST_CODE} characters."
    try:
        safe, message = SafetyGuard.is_syntax_safe(None, code)
        if not safe:
            return _FAILED + str(message)
        ast.parse(code.strip())
    except SyntaxError as error:
        return f"{_FAILED}Syntax error in line:\n{(error.text or '').rstrip()}\nMessage: {error.msg}"
    except (MemoryError, RecursionError, ValueError) as error:
        return f"{_FAILED}{type(error).__name__}: {error}"
    return None if code.strip() else "No code available to execute."


def _raised(error: BaseException) -> JsonObject:
    """Return an exception, and what it was raised on top of, first things first."""
    chain: list[JsonObject] = []
    seen: BaseException | None = error
    while seen is not None and len(chain) < _DEEPEST_CHAIN:
        module, name = type(seen).__module__, type(seen).__qualname__
        cause = seen.__cause__
        chain.insert(0, {"module": module, "name": name, "text": str(seen), "cause": cause is not None})
        seen = cause or (None if seen.__suppress_context__ else seen.__context__)
    return {"raised": chain}


def _bounded(answer: JsonObject) -> JsonObject:
    """Return the answer, or an error when it is too long to be sent."""
    try:
        if len(json.dumps(answer)) <= _LONGEST_ANSWER:
            return answer
    except (TypeError, ValueError, RecursionError) as error:
        return _raised(error)
    return _raised(ValueError("the answer is too long"))
