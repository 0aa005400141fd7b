"""Runs an agent's cells in its session, and words their outcome, as AppWorld does where it runs them
itself.

Agent territory: what is said here is output. Only standard output is kept, and only of cells that end well;
a failed cell leaves the lines of its traceback that are the agent's. Names that need packages, and the
frozen calendar, cost time to load, so they come with the first cell that mentions them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import functools
import inspect
import io
import linecache
import os
import random
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator
from typing import Any

from sandbox_service.runner.untrusted.ask_world import ask

from .alarm import alarm
from .names import install

FAILED = "Execution failed. Traceback:\n"
_FRAME = re.compile(r' +File "(.*?)", line \d+, in .+')
_CELL_FILE = re.compile(r'File "<ipython-input-\d+-\w+>"')
_CALENDAR = ("calendar", "datetime", "pendulum", "time", "uuid", "yaml")
_RENAMED = (
    ("fastapi.exceptions.HTTPException", "Exception"),
    ("Exception: 422:", "Exception:"),
    ("appworld.requester.NumRequestsLimitError", "Exception"),
    ("appworld.common.utils.TimeoutError: Function run_cell execution", "Exception: Execution"),
)


def run(code: str, timeout_s: int, most: int) -> None:
    """Run a cell, and write what AppWorld would answer to standard output, at most ``most`` characters."""
    message = _notebook().run(code, timeout_s, most)
    data = message.encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


@functools.cache
def _notebook() -> Notebook:
    """Return the notebook of this session, opened by its first cell."""
    return Notebook(ask({"op": "prelude"}))


class Notebook:
    """One namespace, filled as AppWorld fills it."""

    def __init__(self, prelude: dict[str, Any]) -> None:
        self._moment = str(prelude["moment"])
        self._cells = 0
        self._names = sys.modules["__main__"].__dict__
        self._deferred: list[ast.stmt] = []
        self._words: re.Pattern[str] | None = None
        apis, requester = install(prelude["apis"])
        self._prepare(str(prelude["preamble"]))
        self._names.update(apis=apis, requester=requester)
        # What IPython has, as far as it shows.
        self._names.update(display=lambda *_, **__: None, In=[""], Out={})
        random.seed(int(prelude["seed"]))

    def _prepare(self, preamble: str) -> None:
        """Run AppWorld's own opening cell, but for what needs packages."""
        words = {"appworld", *_CALENDAR}
        for statement in self._parse(preamble):
            if _needs_packages(statement):
                self._deferred.append(statement)
                words |= {alias.asname or alias.name for alias in statement.names}  # type: ignore[attr-defined]
            else:
                self._execute(statement)
        self._words = re.compile(rf"\b(?:{'|'.join(sorted(words))})\b")

    def run(self, code: str, timeout_s: int, most: int) -> str:
        """Return the answer to one cell."""
        kept, streams = _Kept(most), (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = kept, _Kept(0)
        try:
            with alarm(timeout_s), _exit_is_an_exception():
                self._lend(code)
                for statement in self._parse(code):
                    self._execute(statement)
        except BaseException as error:  # noqa: BLE001  # whatever a cell raises is its answer
            return _cut(FAILED + _message_of(error), most)
        finally:
            sys.stdout, sys.stderr = streams
        return kept.text if kept.text.strip() else "Execution successful."

    def _parse(self, code: str) -> list[ast.stmt]:
        self._cells += 1
        self._file = f"<ipython-input-{self._cells}-cell>"
        # Empty lines before the first one do not count there, and the last one has an end.
        code = code.lstrip("\n").rstrip("\n") + "\n"
        linecache.cache[self._file] = (len(code), None, code.splitlines(keepends=True), self._file)
        return ast.parse(code, self._file).body

    def _execute(self, statement: ast.stmt) -> None:
        """Run one statement of the cell, by itself, as notebooks do."""
        tree = ast.Module([statement], [])
        code = compile(tree, self._file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        waiting = eval(code, self._names)
        if code.co_flags & inspect.CO_COROUTINE:
            # No event loop: what really waits cannot be run.
            with contextlib.suppress(StopIteration):
                waiting.send(None)
                raise SyntaxError(f"{waiting.__name__!r} needs a real async loop")

    def _lend(self, code: str) -> None:
        """Load packages and stop the calendar, when a cell is the first to speak of them."""
        if self._words is None or not self._words.search(code):
            return
        self._words = None
        archive = os.memfd_create("packages")
        with open(archive, "wb", closefd=False) as file:
            file.write(base64.b64decode(ask({"op": "packages"})["archive"]))
        path = f"/proc/self/fd/{archive}"
        sys.path.append(path)
        sys.modules["appworld"].__path__ = [f"{path}/appworld"]
        import freezegun

        freezegun.freeze_time(self._moment).start()
        for statement in self._deferred:
            self._execute(statement)


def _needs_packages(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name == "pendulum" for alias in statement.names)
    module = statement.module if isinstance(statement, ast.ImportFrom) else None
    return module is not None and (module == "pendulum" or module.startswith("appworld.common"))


class _Kept(io.StringIO):
    """A stream of which only the beginning is kept."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._room = most

    def write(self, text: str) -> int:
        if self._room > 0:
            super().write(text[: self._room])
            self._room -= len(text)
        return len(text)

    @property
    def text(self) -> str:
        """Return the output that was kept."""
        return self.getvalue()


def _cut(text: str, most: int) -> str:
    return text[:most]


@contextlib.contextmanager
def _exit_is_an_exception() -> Iterator[None]:
    """Leaving the interpreter is one more exception there."""
    import builtins

    builtins.SystemExit = Exception  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        builtins.SystemExit = _SYSTEM_EXIT  # type: ignore[misc]


_SYSTEM_EXIT = SystemExit


def _message_of(error: BaseException) -> str:
    """Return a traceback as AppWorld shows it: the agent's own lines, and what was raised."""
    kept: list[str] = []
    ours = False
    for line in "".join(traceback.TracebackException.from_exception(error).format()).splitlines():
        if line.startswith("  "):
            frame = _FRAME.match(line)
            if frame is not None:
                ours = "python-input" in frame[1]
            if not ours:
                continue
        kept.append(line)
    first = next((index for index, line in enumerate(kept) if "ipython-input" in line), 0)
    text = _CELL_FILE.sub('File "<python-input>"', "\n".join(kept[first:]))
    for theirs, shown in _RENAMED:
        text = text.replace(theirs, shown)
    return textwrap.dedent(text)
