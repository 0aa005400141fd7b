"""The help of a command line: what is written, what Rich shows of it, and the examples that it gives."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import typer
from rich.markup import render
from typer.main import get_command


def all_commands(name: str, cli: typer.Typer) -> dict[str, Any]:
    """Return the commands of a command line with those below them, by their full names."""
    return dict(_walk(name, get_command(cli)))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for child, below in getattr(command, "commands", {}).items():
        yield from _walk(f"{name} {child}", below)


def swallowed(command: Any) -> list[str]:
    """Return the help texts of a command that Rich shows otherwise than they are written, but for escapes."""
    texts = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
    return [text for text in texts if text and render(text).plain != text.replace("\\[", "[")]


def example_settings(command: Any, program: str) -> Iterator[tuple[str, str]]:
    """Yield the settings KEY=VALUE in the examples of a command, as a shell would pass them."""
    for line in (command.help or "").splitlines():
        if line.strip().startswith(f"{program} "):
            for word in shlex.split(line):
                key, equals, value = word.partition("=")
                if equals and not key.startswith("-"):
                    yield key, value
