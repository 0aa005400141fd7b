"""Write one task: the package with a defect, hidden tests, the original as solution, the instruction."""

from __future__ import annotations

import ast
import json
import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .mutations import Mutation
    from .sources import Package

_SHOWN_TESTS = 2
_SHOWN_LINES = 30
_SHOWN_MESSAGE = 300

_TOML = """\
schema_version = "1.4"

[task]
name = "swe-mutants/{id}"
description = "A defect in {package} {version}."
keywords = ["bug-fix", "python"]

[metadata]
category = "{package}"
licence = "{licence}"
kind = "{kind}"

[agent]
timeout_sec = 1800.0

[verifier]
timeout_sec = 100.0

[environment]
network_mode = "no-network"
memory_mb = 512
"""
_DOCKERFILE = """\
FROM python:3.11-slim
WORKDIR /app
RUN pip install --no-cache-dir {pytest}
COPY repo/ /app/
"""
_TEST_SH = """\
#!/bin/bash
# Neither the user's own packages nor the working directory are on the path; one seed orders all sets alike.
export PYTHONHASHSEED=0
exec python3 -s -P -B "$(dirname "$0")/grade.py"
"""
_SOLVE_SH = """\
#!/bin/bash
cp "$(dirname "$0")/original.py" "/app/{path}"
"""


@dataclass(frozen=True, slots=True)
class Defect:
    """A proven defect."""

    package: Package
    path: str
    """The module, relative to the tree."""
    mutation: Mutation
    original: str
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    messages: dict[str, str]
    """The tests that fail, and what they say."""


def write_task(folder: Path, defect: Defect, visible: Path, hidden: Path, pytest_pin: str) -> None:
    """Write the folder of a task."""
    package = defect.package
    place = {"id": folder.name, "package": package.name, "version": package.version}
    toml = _TOML.format(**place, licence=package.licence, kind=defect.mutation.kind)
    _write(folder / "task.toml", toml)
    _write(folder / "instruction.md", instruction(defect, hidden))
    _write(folder / "environment" / "Dockerfile", _DOCKERFILE.format(pytest=pytest_pin))
    repo = folder / "environment" / "repo"
    _link_tree(visible, repo)
    (repo / defect.path).unlink()
    _write(repo / defect.path, defect.mutation.apply(defect.original))
    _write(folder / "solution" / "original.py", defect.original)
    _write(folder / "solution" / "solve.sh", _SOLVE_SH.format(path=defect.path), executable=True)
    spec = {
        "sources": list(package.sources),
        "fail_to_pass": defect.fail_to_pass,
        "pass_to_pass": defect.pass_to_pass,
    }
    _write(folder / "tests" / "spec.json", json.dumps(spec, indent=1))
    _write(folder / "tests" / "test.sh", _TEST_SH, executable=True)
    grader = Path(__file__).with_name("grader.py").read_text(encoding="utf-8")
    _write(folder / "tests" / "grade.py", grader)
    nodes = [*defect.fail_to_pass, *defect.pass_to_pass]
    _link_tree(hidden, folder / "tests" / "tree", wanted_files(hidden, nodes))


def wanted_files(hidden: Path, nodes: list[str]) -> set[str]:
    """Return the files of a hidden tree that some tests need: their own, and all that hold no tests."""
    own = {node.partition("::")[0] for node in nodes}
    files = {path.relative_to(hidden).as_posix() for path in hidden.rglob("*") if path.is_file()}
    return {name for name in files if name in own or not Path(name).name.startswith("test_")}


def instruction(defect: Defect, hidden: Path) -> str:
    """Return what the agent is told: the checks that fail, and how; neither the place nor the correction."""
    package = defect.package
    shown = sorted(defect.fail_to_pass, key=lambda node: len(defect.messages.get(node, "")))[:_SHOWN_TESTS]
    parts = [
        f"The Python package `{package.name}` {package.version} in `/app` has a defect: "
        f"{_count(len(defect.fail_to_pass), 'check')} of its behaviour fail. Find the defect in the "
        "package's source and correct it, without changing anything that works.",
    ]
    for node in shown:
        source = _source_of(hidden, node)
        message = defect.messages.get(node, "").strip()[:_SHOWN_MESSAGE]
        parts.append(f"This check fails:\n\n```python\n{source}\n```")
        if message:
            parts.append(f"It ends with:\n\n```\n{message}\n```")
    parts.append(
        "The checks themselves are not in `/app`. Your correction is graded by them: those that fail must "
        "pass, and those that pass must go on passing. pytest is installed."
    )
    return "\n\n".join(parts) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _source_of(hidden: Path, node: str) -> str:
    """Return the source of a test, shortened."""
    file, *names = node.split("::")
    text = (hidden / file).read_text(encoding="utf-8", errors="replace")
    body: list[ast.stmt] = ast.parse(text).body
    found: ast.stmt | None = None
    for name in names:
        plain = name.partition("[")[0]
        found = next((each for each in body if getattr(each, "name", None) == plain), None)
        body = found.body if isinstance(found, ast.ClassDef) else []
    if found is None:
        return f"# {node}"
    lines = textwrap.dedent(ast.get_source_segment(text, found, padded=True) or node).rstrip().splitlines()
    if len(lines) > _SHOWN_LINES:
        lines = [*lines[:_SHOWN_LINES], "    ..."]
    case = names[-1].partition("[")[2].rstrip("]")
    return "\n".join([*([f"# case: {case}"] if case else []), *lines])


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if executable:
        path.chmod(0o755)


def _link_tree(origin: Path, target: Path, wanted: set[str] | None = None) -> None:
    """Copy a tree by hard links: hundreds of tasks share the files of a package."""
    for path in origin.rglob("*"):
        name = path.relative_to(origin).as_posix()
        if path.is_file() and (wanted is None or name in wanted):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target / name)
