"""Write the environment's data from the files of the package: ``prepare.py PACKAGES_DIR DATA_DIR``.

``tasks.jsonl``   what the box needs of each task, without ground truth
``answers.jsonl`` ground truth and a solution of each task
``index.json``    ids in order by category, with the place of each task in both files, and its turns
``tools.json``    the tools of each API class
``sessions.json`` the conversations that come before memory questions
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
# The package makes folders when it is imported.
os.environ.setdefault("BFCL_PROJECT_ROOT", tempfile.mkdtemp(prefix="bfcl-"))
# Stands in for a module that imports the SDK of every model vendor.
_models = ModuleType("bfcl_eval.constants.model_config")
_models.MODEL_CONFIG_MAPPING = defaultdict(  # type: ignore[attr-defined]
    lambda: SimpleNamespace(underscore_to_dot=False)
)
sys.modules[_models.__name__] = _models

from bfcl_eval import utils as bfcl  # noqa: E402
from bfcl_eval.constants import category_mapping as categories  # noqa: E402
from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.constants.executable_backend_config import (  # noqa: E402
    CLASS_FILE_PATH_MAPPING,
    MULTI_TURN_FUNC_DOC_FILE_MAPPING,
)
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402

from .conversion import offered_name, tool_of  # noqa: E402
from .solutions import (  # noqa: E402
    ParsedCall,
    any_call,
    parse_call,
    solve_single,
)

Json = dict[str, Any]

MEMORY = ("memory_kv", "memory_rec_sum")
CLASSES = (
    "GorillaFileSystem",
    "MathAPI",
    "MessageAPI",
    "TwitterAPI",
    "TicketAPI",
    "TradingBot",
    "TravelAPI",
    "VehicleControlAPI",
    "MemoryAPI_kv",
    "MemoryAPI_rec_sum",
)
RAISED = (AttributeError, IndexError, KeyError, NotImplementedError, TypeError, ValueError)
"""Errors that the checker raises on arguments that it does not expect."""


def main(data: Path) -> None:
    """Write everything."""
    parameters = _write_tools(data)
    sessions = {name: _session(name) for name in categories.MEMORY_SCENARIO_NAME}
    _write(data / "sessions.json", sessions)
    before = {name: sum(map(len, each)) for name, each in sessions.items()}
    index: dict[str, list[list[Any]]] = {}
    with (data / "tasks.jsonl").open("wb") as tasks, (data / "answers.jsonl").open("wb") as answers:
        for category in (*categories.SINGLE_TURN_CATEGORY, *categories.MULTI_TURN_CATEGORY, *MEMORY):
            rows, solved = [], 0
            for task, answer in _category(category, parameters, before):
                turns = len(task["turns"]) + before.get(task.get("scenario", ""), 0)
                rows.append([task["id"], *_append(tasks, task), *_append(answers, answer), turns])
                solved += bool(answer["solution"])
            index[category] = rows
            print(f"{category}: {len(rows)} tasks, {solved} with a solution")  # noqa: T201
    _write(data / "index.json", index)


def _append(file: Any, value: Json) -> tuple[int, int]:  # noqa: ANN401
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    start = file.tell()
    file.write(line + b"\n")
    return start, len(line)


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _write_tools(data: Path) -> dict[str, list[str]]:
    """Write the tools of each class; the parameters of each method in order."""
    tools: dict[str, list[Json]] = {}
    parameters: dict[str, list[str]] = {}
    for name in CLASSES:
        file = bfcl.MULTI_TURN_FUNC_DOC_PATH / MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
        documents = bfcl.load_file(file, use_lock=False)
        tools[name] = [tool_of(each) for each in documents]
        api = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)
        for each in documents:
            parameters[each["name"]] = list(inspect.signature(getattr(api, each["name"])).parameters)[1:]
    _write(data / "tools.json", tools)
    return parameters


def _session(scenario: str) -> list[list[str]]:
    """Return the user's messages in each conversation that comes before the questions of a scenario."""
    file = bfcl.MEMORY_PREREQ_CONVERSATION_PATH / f"memory_{scenario}.json"
    return [
        [message["content"] for turn in entry["question"] for message in turn]
        for entry in bfcl.load_file(file, use_lock=False)
    ]


def _category(
    category: str, parameters: dict[str, list[str]], before: dict[str, int]
) -> Iterator[tuple[Json, Json]]:
    """Yield each task and its answer."""
    truths = [] if "relevance" in category else bfcl.load_ground_truth_entry(category)
    hinted = bfcl.load_dataset_entry(category, include_prereq=False)
    plain = bfcl.load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
    for number, entry in enumerate(hinted):
        truth: Any = truths[number]["ground_truth"] if truths else None
        task = {"id": entry["id"], "category": category, "turns": entry["question"]}
        if category.startswith("memory"):
            task |= {"classes": entry["involved_classes"], "scenario": entry["scenario"]}
            says = ["Noted."] * before[entry["scenario"]]
            reply = f"{{'answer': '{truth[0]}', 'context': 'It was said in an earlier conversation.'}}"
            solution = [{"text": text} for text in (*says, reply)]
        elif category.startswith("multi_turn"):
            held = {
                turn: [each["name"] for each in given]
                for turn, given in entry.get("missed_function", {}).items()
            }
            task |= {"classes": entry["involved_classes"], "config": entry["initial_config"], "held": held}
            solution = _turns(truth, parameters)
        else:
            functions = plain[number]["function"]
            task |= {"tools": [tool_of(each) for each in entry["function"]], "functions": functions}
            solution = _single(category, task, truth)
        yield task, {"id": entry["id"], "truth": truth, "solution": solution}


def _turns(truth: list[list[str]], parameters: dict[str, list[str]]) -> list[Json]:
    """Return each turn's calls in one message, then a message that ends the turn."""
    steps: list[Json] = []
    for turn in truth:
        if turn:
            steps.append({"calls": [parse_call(call, parameters) for call in turn]})
        steps.append({"text": "Done." if turn else "I cannot do this with what I was given."})
    return steps


def _single(category: str, task: Json, truth: list[Json] | None) -> list[Json]:
    if "irrelevance" in category:
        return [{"text": "None of the functions can do this."}]
    if truth is None:
        return [{"calls": [any_call(task["tools"][0])]}]
    language = {"simple_java": "java", "simple_javascript": "javascript"}.get(category, "python")

    def accepts(document: Json, call: ParsedCall, entry: Json) -> bool:
        return _valid([document], [call], [entry], language, "simple")

    calls = solve_single(task["functions"], truth, language, accepts)
    if calls is None or not _valid(task["functions"], calls, truth, language, category):
        return []
    return [{"calls": [(offered_name(name), arguments) for name, arguments in calls]}]


def _valid(
    functions: list[Json], calls: list[ParsedCall], truth: list[Json], language: str, category: str
) -> bool:
    decoded = [{name: arguments} for name, arguments in calls]
    try:
        verdict = ast_checker(functions, decoded, truth, Language(language), category, "model")
    except RAISED:
        return False
    return bool(verdict["valid"])


if __name__ == "__main__":
    main(Path(sys.argv[-1]))
