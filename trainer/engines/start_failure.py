"""The cause of an engine's failed start, which vLLM's own processes write to their error output only."""

from __future__ import annotations

import re
from pathlib import Path

from trainer.errors import EngineError

_OWN_OUTPUT = Path("/proc/self/fd/2")
_TAIL_BYTES = 64 << 10
_RAISED = re.compile(r"^(?:\(\w+ pid=\d+\) )?((?:\w+\.)*\w*(?:Error|Exception)): (\S.*)$", re.MULTILINE)
"""The last line of a traceback, with or without vLLM's name of the process."""
_ELSEWHERE = "See root cause above"


def start_failure(error: Exception, output: Path = _OWN_OUTPUT) -> EngineError:
    """Return the error of an engine that did not start, with its cause in one line.

    Args:
        error: what opening the engine raised. Of a failure in one of its processes, vLLM says only that
            there was one.
        output: this process's error output, which vLLM's processes share; used where it is a file.
    """
    cause = f"{type(error).__name__}: {error}"
    if _ELSEWHERE in cause and (raised := _RAISED.findall(_tail_of(output))):
        kind, message = raised[-1]
        cause = f"{kind.rpartition('.')[2]}: {message}"
    return EngineError(" ".join(cause.split()))


def _tail_of(output: Path) -> str:
    """Return the end of a file; nothing of a terminal, a pipe and a file that cannot be read."""
    try:
        if not output.is_file():
            return ""
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
