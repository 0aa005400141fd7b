"""Show what a run does before its first step, which may take minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from .figures import clock_text

if TYPE_CHECKING:
    from rich.console import Console


_LOOK_S = 0.5
_QUIET_S = 10.0
_FOR_OTHERS = ("try: ", "starting; ")
"""Lines of the service's log that matter only when the service was started by hand."""


class Beginning:
    """Print the log of the run's service, such as its sandboxes, until the first step is done."""

    def __init__(self, log: Path, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._console = console
        self._clock = clock
        self._began = self._printed_at = clock()
        self._position = log.stat().st_size if log.exists() else 0
        self._doing = "starting the sandbox service, Ray, the engine and the learner"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Beginning:
        self._say(f"{self._doing}; the service's log: {self._log}")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Stop printing."""
        self._over.set()
        self._thread.join()

    def look(self) -> None:
        """Print new lines of the log or, after ten quiet seconds, how long the run has been starting."""
        for line in self._fresh():
            if line.strip() and not line.startswith(_FOR_OTHERS):
                self._say(f"sandboxes: {line}")
            if line.startswith("ready: "):
                self._doing = "starting Ray, the engine and the learner"
        if self._clock() - self._printed_at >= _QUIET_S:
            self._say(f"{self._doing}: {clock_text(self._clock() - self._began)} so far")

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()

    def _fresh(self) -> list[str]:
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._position)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._position += len(whole)
        return whole.decode(errors="replace").splitlines()

    def _say(self, line: str) -> None:
        self._printed_at = self._clock()
        self._console.print(line, markup=False, soft_wrap=True)
