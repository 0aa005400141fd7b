"""An agent without privileges: real processes in a temporary directory, under the test's own uid.

It keeps the Agent protocol's promises except those that need another uid: nothing here is a boundary.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.kernel.cpu_usage import CpuUsage, usage_of
from sandbox_service.runner.world import Execution, FileInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["FakeAgent", "FakeCandidate"]

_SESSION = """
import ast, io, json, os, sys, traceback, types
from sandbox_service.runner.untrusted import ask_world
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.modules["__main__"] = types.ModuleType("__main__")
namespace = sys.modules["__main__"].__dict__
namespace["__builtins__"] = __builtins__
def say(value):
    replies.write(json.dumps(value) + chr(10))
    replies.flush()
def ask(request):
    say({"ask": request})
    return json.loads(sys.stdin.readline())
ask_world.WORLD.connect(ask)
for line in sys.stdin:
    output = io.StringIO()
    sys.stdout = sys.stderr = output
    status = 0
    try:
        tree = ast.parse(json.loads(line))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
            if value is not None:
                print(repr(value))
    except BaseException:
        traceback.print_exc()
        status = 1
    say([status, output.getvalue()])
"""


class FakeCandidate:
    """A forked process that speaks JSON lines over a socket pair."""

    def __init__(self, entry: str, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _run_candidate(entry, theirs, directory)
        theirs.close()
        self._socket = ours
        self._buffer = b""

    def request(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            while b"\n" not in self._buffer:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                data = self._socket.recv(1 << 20)
                if not data:
                    raise EOFError
                self._buffer += data
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def usage(self, enough_s: float = math.inf) -> CpuUsage:
        return usage_of([self.pid], enough_s=enough_s)

    @property
    def closed(self) -> bool:
        return self._socket.fileno() == -1

    def close(self) -> None:
        self._socket.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _run_candidate(entry: str, channel: socket.socket, directory: Path) -> None:
    try:
        os.chdir(directory)
        reader = channel.makefile("rb")

        def receive() -> dict[str, Any]:
            line = reader.readline()
            if not line:
                raise EOFError
            message: dict[str, Any] = json.loads(line)
            return message

        def send(message: dict[str, Any]) -> None:
            channel.sendall(json.dumps(message).encode() + b"\n")

        module, _, function = entry.partition(":")
        getattr(import_module(module), function)(receive, send)
    finally:
        os._exit(0)


class FakeAgent:
    """Python session, shell and files in one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root / "workspace"
        self._root.mkdir(parents=True)
        self._scratch = root / "candidates"
        self._session: subprocess.Popen[str] | None = None
        self.candidates: list[FakeCandidate] = []
        self.calls: list[str] = []
        """Names of the methods that stop, wake and end the agent, in order."""

    @property
    def workspace(self) -> str:
        return str(self._root)

    def python(
        self,
        code: str,
        timeout_s: float,
        max_output: int = 65536,
        serve: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        wall_timeout_s: float | None = None,
    ) -> Execution:
        if self._session is None or self._session.poll() is not None:
            command = [sys.executable, "-I", "-c", _SESSION]
            pipe = subprocess.PIPE
            self._session = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, cwd=self._root, text=True, start_new_session=True
            )
        session = self._session
        assert session.stdin is not None
        assert session.stdout is not None
        killed = _Alarm(session, timeout_s)
        said: Any = code
        while True:
            session.stdin.write(json.dumps(said) + "\n")
            session.stdin.flush()
            line = session.stdout.readline()
            said = json.loads(line) if line else None
            if not isinstance(said, dict):
                break
            said = {} if serve is None else serve(said["ask"])
        killed.cancel()
        if said is None:
            self._end_session()
            return Execution("", None, timed_out=killed.fired, died=not killed.fired)
        status, output = said
        return _execution(output.encode(), status, max_output)

    def shell(
        self, command: str, timeout_s: float, max_output: int = 65536, wall_timeout_s: float | None = None
    ) -> Execution:
        script = os.memfd_create("command")
        with open(script, "wb", closefd=False) as file:
            file.write(command.encode("utf-8", "replace"))
        with subprocess.Popen(
            ["bash", f"/dev/fd/{script}"],
            pass_fds=[script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._root,
            start_new_session=True,
        ) as process:
            os.close(script)
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                return _execution(output, None, max_output, timed_out=True)
        died = process.returncode < 0
        return _execution(output, None if died else process.returncode, max_output, died=died)

    def read_file(self, path: str, max_bytes: int) -> bytes:
        target = self._path(path)
        descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(path)
            if not stat.S_ISREG(mode):
                raise PermissionError(errno.EPERM, "not a regular file")
            return file.read(max_bytes)

    def write_file(self, path: str, data: bytes) -> None:
        target = self._path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def write_files(self, files: dict[str, bytes]) -> None:
        for path, data in files.items():
            self.write_file(path, data)

    def remove_files(self, folders: Sequence[str], timeout_s: float) -> None:
        for folder in map(Path, folders):
            if not folder.is_relative_to(self._root.parent):
                raise ValueError(f"{folder} is not the agent's")
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self._root.mkdir(exist_ok=True)

    def list_files(self, path: str = ".", max_entries: int = 1000) -> list[FileInfo]:
        found = sorted(self._path(path).rglob("*"), key=lambda item: str(item))[:max_entries]
        return [
            FileInfo(
                str(item.relative_to(self._root)), 0 if item.is_dir() else item.stat().st_size, item.is_dir()
            )
            for item in found
        ]

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        self.freeze()
        yield
        self.thaw()

    def freeze(self) -> None:
        self.calls.append("freeze")
        if self._session is not None:
            os.killpg(self._session.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        self.calls.append("thaw")
        if self._session is not None:
            os.killpg(self._session.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.calls.append("kill")
        self._end_session()

    def candidate(self, entry: str, *, sockets: bool = False) -> FakeCandidate:
        self.candidates.append(FakeCandidate(entry, self._scratch / str(len(self.candidates))))
        return self.candidates[-1]

    def _end_session(self) -> None:
        if self._session is None:
            return
        if self._session.poll() is None:
            os.killpg(self._session.pid, signal.SIGKILL)
        self._session.wait()
        for stream in (self._session.stdin, self._session.stdout):
            if stream is not None:
                stream.close()
        self._session = None

    def _path(self, path: str) -> Path:
        target = self._root / path
        if ".." in Path(path).parts or not target.is_relative_to(self._root):
            raise ValueError("the path leaves the workspace")
        return target


class _Alarm:
    """Kills a session at its deadline."""

    def __init__(self, session: subprocess.Popen[str], timeout_s: float) -> None:
        from threading import Timer

        self.fired = False
        self._session = session
        self._timer = Timer(timeout_s, self._fire)
        self._timer.start()

    def _fire(self) -> None:
        self.fired = True
        os.killpg(self._session.pid, signal.SIGKILL)

    def cancel(self) -> None:
        self._timer.cancel()
        self._timer.join()


def _execution(
    output: bytes, status: int | None, max_output: int, *, timed_out: bool = False, died: bool = False
) -> Execution:
    text = output[:max_output].decode(errors="replace")
    truncated = len(output) > max_output
    return Execution(text, status, timed_out=timed_out, truncated=truncated, died=died)
