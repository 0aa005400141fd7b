"""Make objects of the package's API classes and call their methods, without evaluating code.

Importing this module imports ``bfcl_eval``. Two of its modules are replaced before that: one that imports the
SDK of every model vendor, and one that makes folders. A call reaches only a method that the caller allows,
with arguments that were read from JSON.
"""

from __future__ import annotations

import copy
import importlib
import json
import keyword
import sys
import unicodedata
from collections import defaultdict
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

REFUSED = "call_refused()"
"""Stands in a history for a call that was not run; no such function exists anywhere."""
_MOST_DIGITS = 1000
_MOST_BITS = 100_000
_MOST_PATH_CHARACTERS = 200_000
"""Characters of all paths of a file system. Those of the tasks have up to 5,000, solutions included."""
_MANY_PATHS = "the file system has too many paths, or too long ones"
_OVER_PATHS = frozenset({"cp", "du", "find", "mv"})
"""Functions that go along every path, or multiply them: a copied directory shares what it contains, so that a
few dozen calls make a tree that is small in memory and has millions of paths."""


def _stand_in(name: str, **content: object) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    sys.modules.setdefault(name, module)


def _unused(*_: object) -> None:
    raise NotImplementedError("memory is kept in objects, not in files")


# Names are mapped back before they are checked, so the checker need not know of underscores.
_stand_in(
    "bfcl_eval.constants.model_config",
    MODEL_CONFIG_MAPPING=defaultdict(lambda: SimpleNamespace(underscore_to_dot=False)),
)
_stand_in(
    "bfcl_eval.utils",
    get_directory_structure_by_id=_unused,
    is_first_memory_prereq_entry=_unused,
    is_memory_prereq=_unused,
)


def official(name: str) -> ModuleType:
    """Return a module of the package."""
    return importlib.import_module(f"bfcl_eval.{name}")


_paths = official("constants.executable_backend_config")
_NAMES = (
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
_CLASSES = MappingProxyType(
    {name: getattr(importlib.import_module(_paths.CLASS_FILE_PATH_MAPPING[name]), name) for name in _NAMES}
)
_STATELESS = frozenset(_paths.STATELESS_CLASSES)


class _Copied(dict[str, Any]):
    """Entries that are copied for each reader: the package hands out its own, and its methods change them."""

    def items(self) -> Any:  # noqa: ANN401  # a view of the copy
        return copy.deepcopy(dict(self)).items()


_travel = importlib.import_module(_paths.CLASS_FILE_PATH_MAPPING["TravelAPI"])
for _constant in ("CREDIT_CARD_EXTENSION", "BOOKING_RECORD_EXTENSION"):
    setattr(_travel, _constant, _Copied(getattr(_travel, _constant)))


class CallResult:
    """The result of a call."""

    __slots__ = ("succeeded", "text")

    def __init__(self, text: str, *, succeeded: bool) -> None:
        self.text = text
        """The text that the model gets."""
        self.succeeded = succeeded
        """It neither raised nor answered with an error."""


def make_objects(classes: list[str], config: JsonObject, *, long_context: bool) -> dict[str, Any]:
    """Return new objects by class name; they keep parts of ``config``, which must be theirs alone."""
    objects = {}
    for name in classes:
        objects[name] = made = _CLASSES[name]()
        if name not in _STATELESS:
            made._load_scenario(config.get(name, {}), long_context=long_context)  # noqa: SLF001
    return objects


def make_memory(name: str, content: JsonObject) -> dict[str, Any]:
    """Return a memory with a content such as ``memory_of`` gives."""
    made = _CLASSES[name]()
    vars(made).update(copy.deepcopy(content))
    return {name: made}


def memory_of(objects: dict[str, Any]) -> JsonObject:
    """Return what a memory holds."""
    (memory,) = objects.values()
    fields = ("memory",) if hasattr(memory, "memory") else ("core_memory", "archival_memory")
    return {name: copy.deepcopy(getattr(memory, name)) for name in fields}


def visible(memory: Any) -> str:  # noqa: ANN401  # one of the memory classes
    """Return the part of a memory that the agent sees without asking."""
    shown: str = memory._dump_core_memory_to_context()  # noqa: SLF001
    return shown


def refusal(target: object, method: str, arguments: JsonObject) -> str | None:
    """Return why a call is not run: arguments that cannot be written down, or that would take for ever."""
    for name in arguments:
        # The checkers read the call as Python, which takes a ligature in a name for its letters.
        normal = unicodedata.normalize("NFKC", name) == name
        if not name.isidentifier() or keyword.iskeyword(name) or not normal:
            return f"{name!r} is no argument name"
    if method in _OVER_PATHS and hasattr(target, "root"):
        return None if _has_few_paths(target.root, len(str(arguments.get("path", "")))) else _MANY_PATHS
    return _refused_number(method, arguments)


def _refused_number(method: str, arguments: JsonObject) -> str | None:
    digits = arguments.get("precision", arguments.get("decimal_places", 0))
    if method in ("logarithm", "square_root", "round_number"):
        if isinstance(digits, int | float) and abs(digits) > _MOST_DIGITS:
            return f"at most {_MOST_DIGITS} digits are computed"
    elif method == "power":
        base, exponent = arguments.get("base"), arguments.get("exponent")
        if isinstance(base, int) and isinstance(exponent, int) and _bits(base, exponent) > _MOST_BITS:
            return "the result is too large"
    return None


def call(target: object, method: str, arguments: JsonObject) -> CallResult:
    """Call a method that the caller allows; text in the form that the package's own runner gives."""
    try:
        result = getattr(target, method)(**arguments)
        # Within the capture, as in the package's runner: an integer can be too long to be written down.
        text = _shown(result)
    except Exception as error:  # noqa: BLE001  # the capture point of the API classes
        return CallResult(f"Error during execution: {error}", succeeded=False)
    failed = isinstance(result, dict) and "error" in result
    return CallResult(text, succeeded=not failed)


def call_text(method: str, arguments: JsonObject) -> str:
    """Return the call as the checkers take it.

    Parentheses in strings are escaped: the checkers' search for names before a parenthesis would otherwise
    change the strings, too.
    """
    values = (f"{name}={_literal(value)}" for name, value in arguments.items())
    return f"{method}({','.join(values)})"


def _has_few_paths(root: Any, prefix: int) -> bool:  # noqa: ANN401  # a directory of the package
    """Return whether the paths below a directory, each after so many characters, are few and short."""
    characters = 0
    pending = [(root, prefix)]
    while pending:
        directory, length = pending.pop()
        for name, entry in directory.contents.items():
            own = length + 1 + len(name)
            characters += own
            if characters > _MOST_PATH_CHARACTERS:
                return False
            if hasattr(entry, "contents"):
                pending.append((entry, own))
    return True


def _bits(base: int, exponent: int) -> int:
    return base.bit_length() * abs(exponent)


def _literal(value: object) -> str:
    return repr(value).replace("(", "\\x28")


def _shown(result: object) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)
