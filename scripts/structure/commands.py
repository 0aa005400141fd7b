"""Start commands of a tree as processes of their own, wait for them with a deadline, and end them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from .call_trace import FOLDER

STOP_S = 90.0
_TAIL = 15
_RAY_TITLE = re.compile(r"ray::([\w:-]+)")
_RAY_IDLE = "IDLE"
"""Title of a worker of Ray that runs no actor yet."""


class PathsError(Exception):
    """A service or a training could not be traced; the message says why."""


class Running:
    """A tree whose commands are started, with the folder of their records."""

    def __init__(self, tree: Path, records: Path | None, packages: Sequence[str]) -> None:
        """``packages`` are their folders, relative to the tree."""
        self.tree = tree
        self._imports = dict.fromkeys([tree, *((tree / package).parent for package in packages)])
        self.records = records
        self.names: dict[int, str] = {}
        """Names of the recorded processes, by id."""

    @contextlib.contextmanager
    def started(self, name: str, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command of the tree's pyproject.toml; it and all that it started end with the block."""
        variables = {
            **os.environ,
            "PYTHONPATH": ":".join(map(str, self._imports)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self.records is not None:
            variables[FOLDER] = str(self.records)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._command(name), *words],
                cwd=self.tree,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            self._end(process)

    def note_processes(self) -> None:
        """Remember what the recorded processes are, while they live: Ray names those of its actors."""
        for file in self.records.glob("*.trace") if self.records else ():
            pid = int(file.stem)
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                title = _RAY_TITLE.search(command)
                if title is None or title[1] != _RAY_IDLE:
                    self.names[pid] = title[1] if title else "command"

    def _command(self, name: str) -> list[str]:
        """Return the arguments that start a command, wherever its module lies in this tree."""
        project = tomllib.loads((self.tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        module, _, function = project["scripts"][name].partition(":")
        start = f"import sys; from {module} import {function}; sys.argv[0] = {name!r}; {function}()"
        return [sys.executable, "-c", start]

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_S)


def wait_for(process: subprocess.Popen[bytes], seconds: float, log: Path) -> None:
    """Wait until a command is done. Raises PathsError if it fails or takes too long."""
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise PathsError(f"a command was not done after {seconds:g} s:\n{tail(log)}") from None
    if status:
        raise PathsError(f"a command failed with status {status}:\n{tail(log)}")


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:])


def deadline(seconds: float) -> Iterator[None]:
    """Yield until the time is over, with a short sleep between."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.25)
