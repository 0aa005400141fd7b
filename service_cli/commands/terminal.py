"""Where the commands write: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from local_processes.readiness import NotReadyError
from sandbox_client import NotFoundError, SandboxError, TransportError
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.auth import ExposureError
from sandbox_settings import SettingsError
from service_cli.policies.policies import PolicyError

FAILED = 1
"""Exit code: it could not be done."""
WRONG = 2
"""Exit code: it was asked for in a wrong way; the same as of a wrong option."""
INTERRUPTED = 130
"""Exit code: Ctrl-C."""


def results() -> Console:
    """What the user asked for."""
    return Console(highlight=False)


def notes() -> Console:
    """Progress and remarks."""
    return Console(stderr=True, highlight=False)


def notes_line(line: str) -> None:
    """One plain line of progress."""
    notes().print(line, markup=False, soft_wrap=True)


def write_json(value: object, also: Path | None = None) -> None:
    """Plain JSON for other programs: no colour, no wrapping."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
    sys.stdout.write(text)
    if also is not None:
        also.write_text(text, encoding="utf-8")


def fail(sentence: str, code: int = FAILED) -> typer.Exit:
    """Print what is wrong; raise what this returns."""
    notes().print(f"[bold red]error:[/] {_plain(sentence)}", soft_wrap=True)
    return typer.Exit(code)


@contextmanager
def explained() -> Iterator[None]:
    """Errors that the user can do something about become a sentence and an exit code."""
    try:
        yield
    except TransportError as error:
        raise fail(f"{error} (is the service running? start one with: sandbox-service serve)") from error
    except (SettingsError, ExposureError, NotFoundError) as error:
        raise fail(str(error), WRONG) from error
    except PolicyError as error:
        raise fail(str(error), WRONG if error.code == "usage" else FAILED) from error
    except (SandboxError, ServiceError, NotReadyError) as error:
        raise fail(str(error)) from error


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
