"""List the functions that every create, step and training step calls, in a traced copy of a tree.

The tree's tracked files are copied and the trace is added to the copy (see ``call_trace``), so that no module
has to be named here: a service and a training are started by their commands, and spoken to over HTTP. A
function is on a path if each measured window has a call of it, which leaves out what happens at start or now
and then, and if not each idle window of the same length has one, which leaves out what runs anyway.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import call_trace
from .commands import PathsError, Running
from .service_calls import service_windows
from .training_steps import training_windows

KINDS = ("create", "step", "training_step")
Windows = Sequence[tuple[int, int]]
"""Begins and ends, in nanoseconds of the machine's monotonic clock."""


@dataclass(frozen=True, slots=True)
class Call:
    """A record of the trace."""

    time_ns: int
    process: str
    function: str
    """``path:line qualified.name``, relative to the tree."""
    depth: int = 1
    """Functions of the tree on the stack."""


def trace_paths(root: Path, packages: Sequence[str], kinds: Sequence[str]) -> dict[str, object]:
    """Return the functions of each kind of call, by process, in order of their first call.

    ``packages`` are folders of packages, relative to the root.

    Raises PathsError if a service or a training does not start or fails.
    """
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise PathsError(f"--paths knows no {', '.join(sorted(unknown))}; choose from {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory(prefix="paths-") as scratch:
        copy = traced_copy(root, Path(scratch) / "tree", packages)
        found: dict[str, object] = {}
        if {"create", "step"} & set(kinds):
            records = Path(scratch) / "service"
            records.mkdir()
            running = Running(copy, records, packages)
            windows, boxes = service_windows(running, Path(scratch))
            calls = [*read_calls(records, running.names), *boxes_calls(boxes)]
            idle = windows.pop("idle")
            found = {kind: path_of(calls, windows[kind], idle) for kind in windows if kind in kinds}
        if "training_step" in kinds:
            records = Path(scratch) / "training"
            records.mkdir()
            running = Running(copy, records, packages)
            steps = training_windows(running, Running(root, None, packages), Path(scratch))
            found["training_step"] = path_of(list(read_calls(records, running.names)), steps, [])
        return found


def traced_copy(root: Path, copy: Path, packages: Sequence[str]) -> Path:
    """Copy the files that git tracks, or would track, and add the trace to the copy."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise PathsError(f"{root} is no checkout of git: {listed.stderr.strip()}")
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).exists() or (root / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
    trace = Path(call_trace.__file__).read_text(encoding="utf-8")
    _add_trace(copy / "sitecustomize.py", trace, f"start_trace(root, {tuple(packages)!r}, threads_only=True)")
    for package in packages:
        # A box gets an empty ``__init__`` for each package above those that are copied into it, so the trace
        # is in theirs, too. Only the first that is imported starts it.
        for file in (copy / package / "__init__.py", *sorted((copy / package).glob("*/__init__.py"))):
            depth = len(file.relative_to(copy).parts)
            _add_trace(file, trace, f"start_trace(root, {tuple(packages)!r})", depth)
    return copy


def _add_trace(file: Path, trace: str, start: str, depth: int = 1) -> None:
    """Start the trace at the end of a file, which lies so deep below the root; no name is left behind."""
    root = f"__import__('os').path.abspath(__file__).rsplit('/', {depth})[0]"
    text = f"{trace}\n{start}\n"
    with file.open("a", encoding="utf-8") as source:
        source.write(f"\nexec(compile({text!r}, '<trace>', 'exec'), {{'root': {root}}})\n")


def read_calls(folder: Path, names: Mapping[int, str]) -> Iterator[Call]:
    """Yield the records of all processes that write into a folder."""
    for file in sorted(folder.glob("*.trace")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            yield from _call(line, names, "other process")


def boxes_calls(logs: Sequence[str]) -> Iterator[Call]:
    """Yield the records in the logs of boxes' runners, between lines of their own."""
    for log in logs:
        for line in log.splitlines():
            yield from _call(line, {}, "box")


def _call(line: str, names: Mapping[int, str], kind: str) -> Iterator[Call]:
    time_ns, pid, depth, function = (*line.split(" ", 3), "", "", "", "")[:4]
    is_record = time_ns.isdigit() and pid.isdigit() and depth.isdigit()
    if is_record and not function.rpartition(".")[2].endswith(">"):
        yield Call(int(time_ns), names.get(int(pid), kind), function, int(depth))


def path_of(calls: Sequence[Call], windows: Windows, idle: Windows) -> dict[str, object]:
    """Return the named functions that each window has, and not each idle one, by process.

    ``deepest_stack`` is how many functions of the tree are on a process's stack at most when one of these is
    called for the first time: the layers that a call passes. A task that is started has a stack of its own.
    """
    calls = sorted(calls, key=lambda call: call.time_ns)
    begun = [_first_calls(calls, window) for window in windows]
    if not begun or not all(begun):
        raise PathsError("a measured window has no call of any function of the tree")
    common = set(begun[0]).intersection(*begun[1:])
    background = set.intersection(*(set(_first_calls(calls, window)) for window in idle)) if idle else set()
    order: dict[str, list[str]] = defaultdict(list)
    deepest: dict[str, int] = defaultdict(int)
    last = begun[-1]
    for process, function in sorted(common - background, key=lambda each: last[each].time_ns):
        order[process].append(function)
        depth = last[process, function].depth
        deepest[process] = max(deepest[process], depth)
    functions = {function for names in order.values() for function in names}
    return {
        "functions": len(functions),
        "windows": len(windows),
        "deepest_stack": dict(deepest),
        "order": dict(order),
    }


def _first_calls(calls: Sequence[Call], window: tuple[int, int]) -> dict[tuple[str, str], Call]:
    """Return the first call of each function of each process in a window, of calls in order of time."""
    begin = bisect_left(calls, window[0], key=lambda call: call.time_ns)
    end = bisect_right(calls, window[1], key=lambda call: call.time_ns)
    first: dict[tuple[str, str], Call] = {}
    for call in calls[begin:end]:
        first.setdefault((call.process, call.function), call)
    return first
