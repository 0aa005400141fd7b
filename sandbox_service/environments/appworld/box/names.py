"""The names that a cell finds beside Python's own: ``apis`` and ``requester``, as AppWorld has them.

Agent territory: this runs in the agent's session, and each call is a question to the world. Class names,
module names and texts of errors are AppWorld's, because they show in tracebacks.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from sandbox_service.runner.untrusted.ask_world import ask

from .values import encode

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject


def _question(app: str, api: str, arguments: JsonObject, *, wrapped: bool) -> Any:  # noqa: ANN401
    """Have the world make a call: its value, what it printed printed, what it raised raised."""
    request = {"op": "call", "app": app, "api": api, "arguments": encode(arguments), "wrapped": wrapped}
    answer = ask(request)
    if answer.get("printed"):
        sys.stdout.write(answer["printed"])
    if "raised" in answer:
        _raise(answer["raised"])
    return answer.get("value")


def _raise(chain: Sequence[JsonObject]) -> NoReturn:
    """Raise what was raised over there, on top of what it was raised from."""
    *earlier, last = chain
    error = _error_class(last["module"], last["name"])(last["text"])
    if not earlier:
        raise error
    try:
        _raise(earlier)
    except Exception as context:  # it is only shown
        if last["cause"]:
            raise error from context
        raise error  # noqa: B904  # the context is what is meant


@cache
def _error_class(module: str, name: str) -> type[Exception]:
    base = getattr(builtins, name, Exception) if module == "builtins" else Exception
    if not (isinstance(base, type) and issubclass(base, Exception) and "__new__" not in vars(base)):
        base = Exception
    members = {"__module__": module, "__init__": _keep_text, "__str__": lambda self: self.text}
    return type(name, (base,), members)


def _keep_text(self: Any, text: str) -> None:  # noqa: ANN401
    self.text = text


class HTTPException(Exception):  # noqa: N818  # AppWorld's name of it
    """Error of an unknown app or API."""

    def __init__(self, status_code: int, detail: str) -> None:
        super().__init__(status_code, detail)
        self.status_code = status_code
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.status_code}: {self.detail}"

    def __repr__(self) -> str:
        return f"HTTPException(status_code={self.status_code!r}, detail={self.detail!r})"


class _Named(dict[str, Any]):
    """A dictionary whose items are attributes as well, and which says what is missing."""

    _missing: ClassVar[str] = "'{key}' is missing."

    def __getattr__(self, key: str) -> Any:  # noqa: ANN401
        # One error on top of the other: all of them show when this happens in the handler of a fourth.
        try:
            return object.__getattribute__(self, key)
        except AttributeError:
            try:
                return self[key]
            except KeyError:
                raise HTTPException(422, type(self)._missing.format(key=key))  # noqa: B904, SLF001


class ApiCollection(_Named):
    """``apis``: a dictionary of apps."""

    _missing = "No app named '{key}' found."

    def keys(self) -> list[str]:  # type: ignore[override]
        return [*dict.keys(self)]

    def values(self) -> list[Any]:  # type: ignore[override]
        return [*dict.values(self)]

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        return [*dict.items(self)]


def _wrap_api_request(app_name: str, api_name: str) -> Callable[..., Any]:
    def _api_request(**kwargs: Any) -> Any:  # noqa: ANN401
        return _question(app_name, api_name, kwargs, wrapped=True)

    return _api_request


class Requester:
    """``requester``: calls by name. What reaches past the public APIs is not offered."""

    def request(self, _app_name: str, _api_name: str, **data: Any) -> Any:  # noqa: ANN401
        """Call ``_app_name``'s API ``_api_name``."""
        return _question(_app_name, _api_name, data, wrapped=False)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise Exception("requester makes no requests by URL here. Call apis.<app>.<api>(..).")  # noqa: TRY002

    get = post = put = patch = delete = _refuse


def install(apis: Mapping[str, Sequence[str]]) -> tuple[ApiCollection, Requester]:
    """``apis`` and ``requester``, and their classes where AppWorld has them."""
    collection = ApiCollection()
    for app, names in apis.items():
        missing = "No API named '{key}' found in the " + app + " app."
        kind = type("_CustomErrorMessageMunch", (_Named,), {"_missing": missing})
        collection[app] = kind({name: _wrap_api_request(app, name) for name in names})
    _place("appworld.collections.apis", ApiCollection)
    _place("appworld.requester", Requester)
    HTTPException.__module__ = "fastapi.exceptions"
    return collection, Requester()


def _place(path: str, kind: type) -> None:
    """Make a class importable from a module of that path."""
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = []
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[name])
    kind.__module__ = path
    setattr(sys.modules[path], kind.__name__, kind)
