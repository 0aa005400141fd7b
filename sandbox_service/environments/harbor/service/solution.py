"""The oracle of a task as a command: write the solution's files, then run ``solve.sh``."""

from __future__ import annotations

import base64
import posixpath
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .task_files import TaskFile


_SCRIPT = "/solution/solve.sh"


def solving_command(files: Mapping[str, TaskFile], variables: Mapping[str, str]) -> str:
    """Return the command that solves a task in its box."""
    lines = ["set -e"]
    for path, file in files.items():
        target = shlex.quote(f"/solution/{path}")
        lines.append(f"mkdir -p {shlex.quote(posixpath.dirname(f'/solution/{path}'))}")
        lines.append(f"base64 -d > {target} <<'END'\n{base64.b64encode(file.content).decode()}\nEND")
        if file.executable:
            lines.append(f"chmod +x {target}")
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join([*lines, *exports, f"chmod +x {_SCRIPT}", f"bash {_SCRIPT}"])
