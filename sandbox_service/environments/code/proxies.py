"""The grader's view of a candidate: functions and objects that live in another process.

A handle offers calls, attributes, items, iteration, length, truth and text; each is asked of the candidate
and comes back as data. A handle is never equal to anything and has no arithmetic, so an object made to equal
everything equals nothing here. Standard library only.
"""

from __future__ import annotations

import builtins
import time
from typing import TYPE_CHECKING, Any

from .codec import CodecError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_service.runner.world import Candidate

__all__ = ["CandidateError", "CandidateLost", "CandidateTimeout", "Handle", "Session"]

JsonObject = dict[str, Any]

_NOT_RAISED = {"StopIteration", "StopAsyncIteration", "UnicodeError", "ExceptionGroup"}
"""Iteration would take the first two for its own end; the others cannot be made from a text."""


class CandidateError(Exception):
    """The solution raised something that is no built-in exception, or answered with nonsense."""


class CandidateLost(BaseException):
    """The candidate's process is gone. Not an Exception, so that no test catches it by accident."""


class CandidateTimeout(BaseException):
    """The candidate did not answer before the test's deadline."""


class Session:
    """The conversation with one candidate, up to a deadline on the monotonic clock."""

    def __init__(self, candidate: Candidate, deadline: float, *, write_back: bool = False) -> None:
        self._candidate = candidate
        self._deadline = deadline
        self._write_back = write_back

    def load(self, source: str) -> None:
        """Run the solution's code. Raises what it raises."""
        self._ask({"op": "load", "source": source})

    def get(self, name: str) -> Any:  # noqa: ANN401 - whatever the solution defines
        """A name of the solution. Raises AttributeError."""
        return self._value(self._ask({"op": "get", "name": name}))

    def call(self, target: Handle | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Call an object of the candidate, or a built-in function there."""
        request: JsonObject = {"op": "call", "write_back": self._write_back and isinstance(target, Handle)}
        request |= {"builtin": target} if isinstance(target, str) else {"target": _number(target)}
        request["args"] = [encode(item, _number) for item in args]
        request["kwargs"] = {name: encode(item, _number) for name, item in kwargs.items()}
        answer = self._ask(request)
        if request["write_back"]:
            self._copy_back(args, answer.get("args"))
        return self._value(answer)

    def items(self, target: Handle) -> Iterator[Any]:
        """What iterating over an object gives."""
        iterator = self.call("iter", (target,), {})
        while True:
            args = [encode(iterator, _number)]
            request = {"op": "call", "builtin": "next", "args": args, "kwargs": {}, "write_back": False}
            answer = self._answer(request)
            if answer.get("stop"):
                return
            yield self._value(answer)

    def _ask(self, request: JsonObject) -> JsonObject:
        """The answer to a request; only ``items`` may take a StopIteration for an end."""
        answer = self._answer(request)
        if answer.get("stop"):
            raise CandidateError("StopIteration")
        return answer

    def _answer(self, request: JsonObject) -> JsonObject:
        time_left = self._deadline - time.monotonic()
        if time_left <= 0:
            raise CandidateTimeout
        try:
            answer = self._candidate.request(request, time_left)
        except TimeoutError:
            raise CandidateTimeout from None
        except (EOFError, OSError, ValueError, RecursionError) as error:
            raise CandidateLost(type(error).__name__) from None
        if not isinstance(answer, dict):
            raise CandidateLost("the answer is no object")
        if "error" in answer:
            raise _exception(answer["error"])
        return answer

    def _value(self, answer: JsonObject) -> Any:  # noqa: ANN401 - any value
        try:
            return decode(answer.get("value"), lambda number: Handle(self, number))
        except CodecError as error:
            raise CandidateError(f"unreadable answer: {error}") from None

    def _copy_back(self, args: tuple[Any, ...], changed: object) -> None:
        if not isinstance(changed, list) or len(changed) != len(args):
            raise CandidateError("the answer lacks the arguments")
        for argument, data in zip(args, changed, strict=True):
            if data is None:
                continue
            value = self._value({"value": data})
            if isinstance(argument, list | bytearray) and isinstance(value, type(argument)):
                argument[:] = value
            elif isinstance(argument, dict | set) and isinstance(value, type(argument)):
                argument.clear()
                argument.update(value)


def _number(value: object) -> int:
    if isinstance(value, Handle):
        return object.__getattribute__(value, "_number")  # type: ignore[no-any-return]
    raise CandidateError(f"a {type(value).__name__} cannot be passed to a solution")


def _exception(error: object) -> Exception:
    """The exception that the candidate reports: the nearest built-in one, made here from a text."""
    names = error.get("types") if isinstance(error, dict) else None
    text = error.get("text") if isinstance(error, dict) else None
    text = text if isinstance(text, str) else ""
    for name in names if isinstance(names, list) else []:
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception:
            if name in _NOT_RAISED or issubclass(kind, UnicodeError | BaseExceptionGroup):
                continue
            return kind(text)
    return CandidateError(text)


class Handle:
    """An object of the candidate."""

    __slots__ = ("_number", "_session")

    def __init__(self, session: Session, number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def _ask(self, function: str, *args: object) -> Any:  # noqa: ANN401 - any value
        session: Session = object.__getattribute__(self, "_session")
        return session.call(function, (self, *args), {})

    def _text(self, function: str) -> str:
        text = self._ask(function)
        if not isinstance(text, str):
            raise CandidateError(f"{function}() gave no string")
        return text

    def __call__(self, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - any value
        session: Session = object.__getattribute__(self, "_session")
        return session.call(self, args, kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any value
        return self._ask("getattr", name)

    def __setattr__(self, name: str, value: object) -> None:
        self._ask("setattr", name, value)

    def __getitem__(self, key: object) -> Any:  # noqa: ANN401 - any value
        session: Session = object.__getattribute__(self, "_session")
        return session.call(session.call("getattr", (self, "__getitem__"), {}), (key,), {})

    def __iter__(self) -> Iterator[Any]:
        session: Session = object.__getattribute__(self, "_session")
        return session.items(self)

    def __len__(self) -> int:
        length = self._ask("len")
        if type(length) is not int or length < 0:
            raise CandidateError("len() gave no length")
        return length

    def __bool__(self) -> bool:
        return self._ask("bool") is True

    def __str__(self) -> str:
        return self._text("str")

    def __repr__(self) -> str:
        return self._text("repr")

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Handle) and self._ask_isinstance(instance)

    def _ask_isinstance(self, instance: Handle) -> bool:
        session: Session = object.__getattribute__(self, "_session")
        return session.call("isinstance", (instance, self), {}) is True

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)
