"""Where the commands write: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from trainer.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    EngineError,
    ServiceUnavailable,
    Stalled,
    TrainerError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import FrameType

__all__ = ["FAILED", "INTERRUPTED", "WRONG", "explained", "notes", "results", "warn", "write_json"]

FAILED = 1
"""Exit code: it could not be done."""
WRONG = 2
"""Exit code: it was asked for in a wrong way; the same as of a wrong option."""
INTERRUPTED = 130
"""Exit code: Ctrl-C."""

_NEXT: Mapping[type[TrainerError], str] = {
    ConfigError: "See all settings with: sandbox-trainer config --settings",
    DataError: "Correct the file, or choose another one.",
    ServiceUnavailable: "Start a service with `sandbox-service serve`, or leave service.url out, "
    "and one is started for the run.",
    Stalled: "Look at the sandboxes with `sandbox-service status`, then go on with: sandbox-trainer train "
    "RUN.toml --resume",
    CheckpointError: "Begin anew under another name=..., or with --force in place of --resume.",
    EngineError: "What engines logged is in the run's folder, under logs, and what vLLM printed in Ray's, "
    "/tmp/ray/session_latest/logs. Go on with: sandbox-trainer train RUN.toml --resume",
}


def results() -> Console:
    """What the user asked for."""
    return Console(highlight=False)


def notes() -> Console:
    """Progress and remarks."""
    return Console(stderr=True, highlight=False)


def warn(sentence: str, console: Console | None = None) -> None:
    """What goes on for now, and may be trouble."""
    (console or notes()).print(f"[yellow]warning:[/] {_plain(sentence)}", soft_wrap=True)


def write_json(value: object, also: Path | None = None) -> None:
    """Plain JSON for other programs: no colour, no wrapping."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
    sys.stdout.write(text)
    if also is not None:
        also.write_text(text, encoding="utf-8")


@contextmanager
def explained(interrupted: str = "interrupted") -> Iterator[None]:
    """Errors become a sentence, what to do next and an exit code; Ctrl-C becomes ``interrupted``.

    Sandboxes and engines take a while to end, so Ctrl-C is answered at once and told again when they have.
    """
    try:
        with _answered():
            yield
    except TrainerError as error:
        raise _failed(
            str(error), _next(error), WRONG if isinstance(error, ConfigError) else FAILED
        ) from error
    except OSError as error:
        raise _failed(f"{error.filename or 'a file'}: {error.strerror or error}", "", FAILED) from error
    except KeyboardInterrupt as error:
        notes().print(interrupted, markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def _answered() -> Iterator[None]:
    """Say that Ctrl-C was heard, then do what it does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, frame: FrameType | None) -> None:
        notes().print("stopping ...")
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _failed(sentence: str, hint: str, code: int) -> typer.Exit:
    console = notes()
    console.print(f"[bold red]error:[/] {_plain(sentence)}", soft_wrap=True)
    if hint:
        console.print(hint, markup=False, soft_wrap=True)
    return typer.Exit(code)


def _next(error: TrainerError) -> str:
    return next((hint for kind, hint in _NEXT.items() if isinstance(error, kind)), "")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
