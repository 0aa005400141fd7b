"""The persistent Python session of an agent: runs cells in one namespace, as a notebook does.

It runs under the agent's user id, and cells can tamper with it: nothing that it sends is believed but that a
cell is over. Each cell's output goes to a pipe of its own.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import select
import signal
import socket
import sys
import traceback
import types
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.io.packets import receive_packet_with_descriptors, send_packet
from sandbox_service.runner.kernel.fork_sibling import fork_sibling
from sandbox_service.runner.messages.codec import MessageError, encode
from sandbox_service.runner.messages.session import (
    REQUESTS,
    CellDone,
    ForkSession,
    Moved,
    MoveSession,
    QuestionAnswer,
    QuestionRefused,
    RunCell,
    SessionForked,
)

from .ask_world import WORLD, CellQuestions

if TYPE_CHECKING:
    from sandbox_service.runner.messages.codec import RunnerMessage


def serve_session(control: socket.socket) -> None:
    """Serve cells until the worker hangs up."""
    AgentSession(control).serve()


class AgentSession:
    """A namespace, and the loop that runs cells in it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._count = 0
        self._handlers: dict[type[RunnerMessage], Callable[[Any, bytes, list[int]], None]] = {
            RunCell: self._run_cell,
            ForkSession: self._fork,
            MoveSession: self._move,
            # An answer that its cell did not wait for.
            QuestionAnswer: lambda *_: None,
            QuestionRefused: lambda *_: None,
        }
        self._main = types.ModuleType("__main__")
        self._main.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = self._main
        sys.path.insert(0, "")
        sys.argv[:] = [""]

    def serve(self) -> None:
        while True:
            try:
                # Wait outside of the receive: a handler of the agent's that raised in the middle of a packet
                # would lose its beginning.
                poll = select.poll()
                poll.register(self._control, select.POLLIN)
                poll.poll()
                message, blob, descriptors = receive_packet_with_descriptors(self._control)
            except EOFError:
                return
            except BaseException:  # noqa: BLE001  # a signal handler of the agent's own raised; wait on
                continue
            try:
                request = REQUESTS.decode(message)
            except MessageError:
                # Agent code has the socket, too, and may have read a part of what was sent.
                continue
            self._handlers[type(request)](request, blob, descriptors)

    def _reply(self, message: RunnerMessage) -> None:
        with contextlib.suppress(EOFError):
            send_packet(self._control, encode(message))

    def _run_cell(self, request: RunCell, code: bytes, descriptors: list[int]) -> None:
        WORLD.connect(CellQuestions(self._control, request.number).ask if request.serves else None)
        ok = self._cell(code.decode("utf-8", "replace"), descriptors[0])
        WORLD.connect(None)
        self._reply(CellDone(request.number, ok))

    def _cell(self, source: str, output: int) -> bool:
        """Run one cell with its output in the pipe; whether it ended without an exception."""
        _redirect(output)
        os.close(output)
        self._count += 1
        stream = _open_streams()
        try:
            return self._run(source, f"<cell {self._count}>")
        finally:
            for each in {id(s): s for s in (sys.stdout, sys.stderr, stream)}.values():
                with contextlib.suppress(BaseException):
                    each.flush()
            _silence()

    def _run(self, source: str, name: str) -> bool:
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        try:
            tree = ast.parse(source, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            namespace = self._main.__dict__
            exec(compile(tree, name, "exec", dont_inherit=True), namespace)
            if last is not None:
                # "single" echoes the value of an expression, and sets "_", through sys.displayhook.
                echo = ast.Interactive(body=[last])
                exec(compile(echo, name, "single", dont_inherit=True), namespace)
        except SystemExit as leaving:
            return leaving.code in (None, 0)
        except BaseException as error:  # noqa: BLE001  # whatever a cell raises is its output
            _print_error(error)
            return False
        return True

    def _fork(self, _request: ForkSession, _code: bytes, descriptors: list[int]) -> None:
        """Leave a copy of this process behind, which serves the other end of the descriptor."""
        [descriptor] = descriptors
        try:
            in_copy = fork_sibling() == 0
        except OSError:
            # The agent may have used up its processes. The worker sees the copy's socket close, and this
            # session, whose fork it was, goes on.
            in_copy = False
        if not in_copy:
            os.close(descriptor)
            return
        os.setsid()
        self._control.close()
        self._control = socket.socket(fileno=descriptor)
        self._reply(SessionForked(os.getpid()))

    def _move(self, request: MoveSession, _code: bytes, _: list[int]) -> None:
        """Go from one workspace to the same place in another."""
        old, new = request.old, request.new
        with contextlib.suppress(OSError):
            here = os.getcwd()  # noqa: PTH109
            inside = here == old or here.startswith(old + "/")
            os.chdir(new + here[len(old) :] if inside else new)
        for name, value in list(os.environ.items()):
            if value == old or value.startswith(old + "/"):
                os.environ[name] = new + value[len(old) :]
        self._reply(Moved())


def _print_error(error: BaseException) -> None:
    try:
        shown = _foreign(error.__traceback__)
        text = "".join(traceback.format_exception(type(error), error, shown))
    except BaseException:  # noqa: BLE001  # an exception that cannot even be shown
        text = f"{type(error).__name__}\n"
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        _write_all(2, text.encode("utf-8", "replace"))


def _foreign(tb: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that lies below this module."""
    while tb is not None and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    return tb


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _open_streams() -> io.TextIOWrapper:
    """Fresh standard streams over descriptors 0 to 2, whatever the last cell did to the old ones."""
    out = io.FileIO(1, "w", closefd=False)
    stream = io.TextIOWrapper(io.BufferedWriter(out), "utf-8", "replace", line_buffering=True)
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = stream  # type: ignore[misc]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "replace")
    return stream


def _redirect(output: int) -> None:
    signal.set_wakeup_fd(-1)
    os.dup2(output, 1)
    os.dup2(output, 2)
    _null_to(0)


def _silence() -> None:
    """Between cells nothing is listened to; threads of the agent's that still print write to nowhere."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            _null_to(descriptor)


def _null_to(descriptor: int) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
