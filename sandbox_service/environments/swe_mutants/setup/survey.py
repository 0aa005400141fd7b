"""Survey a package's tests: which pass, how long they take, and which functions each of them calls."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

import pytest

from . import grader

Outcomes = dict[str, tuple[str, str]]
"""Outcome and message of tests by their ids."""

_WALLS_S = (80.0, 240.0, 720.0)
"""Time that tests have in the first run, and in further ones after a machine that was too busy."""
_SLOW_S = 0.3
"""A test that takes longer than this is left out."""
_MOST_TESTS = 40
_MOST_S = 1.5
_OTHER_SEED = "1"
_START_S = 120.0
"""Time that a process has to start and to end, beside that of its tests."""
_RUN = """
import json
import sys
from pathlib import Path
_, folder, tree, file, wall_s = sys.argv
sys.path.append(folder)
import pytest
from setup import grader
try:
    print(json.dumps(grader.run_tests(Path(tree), [file], bounded=False, wall_s=float(wall_s))))
except grader.StarvedTestsError:
    sys.exit(grader.STARVED_STATUS)
"""


@dataclass(slots=True)
class Survey:
    """The tests of a package that pass, and what they call."""

    callers: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """Tests by the function that they call: module's path and first line."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of each passing test, without the time that other processes took."""


class CallRecorder:
    """A pytest plugin that notes which functions of the package each test calls."""

    def __init__(self, root: Path, note: TextIO) -> None:
        self._root = f"{root}/"
        self._note = note

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Run one test under a profiler."""
        called: set[tuple[str, int]] = set()
        root = self._root

        def profile(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(root):
                called.add((frame.f_code.co_filename.removeprefix(root), frame.f_code.co_firstlineno))

        begun = _undisturbed_s()
        sys.setprofile(profile)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            took = _undisturbed_s() - begun
            self._note.write(json.dumps([item.nodeid, took, sorted(called)]) + "\n")
            self._note.flush()


def _undisturbed_s() -> float:
    """Return a clock that stands still while other processes keep this thread from running."""
    now = time.perf_counter()
    try:
        waited_ns = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]
    except OSError:
        return now
    return now - int(waited_ns) / 1e9


def survey(visible: Path, hidden: Path, sources: list[str], scratch: Path) -> Survey:
    """Run every test file of a package by itself, with the package as it is."""
    found = Survey()
    for file in test_files(hidden):
        tree = scratch / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        grader.lay_out(tree, hidden, visible, sources)
        note = scratch / "calls"
        outcomes, honest = run_patiently(partial(_run_file, tree, file, note))
        if not honest:
            continue
        again, _ = run_patiently(partial(_run_with_other_seed, tree, file))
        passed = _passed(outcomes) & _passed(again)
        for line in note.read_text(encoding="utf-8").splitlines():
            node, took, called = json.loads(line)
            # Ids with characters that the command line does not carry over cannot be asked for one by one.
            if node not in passed or took > _SLOW_S or not node.isascii() or not node.isprintable():
                continue
            found.seconds[node] = took
            for path, line_number in called:
                found.callers.setdefault((path, line_number), []).append(node)
    return found


def run_patiently(run: Callable[[float], tuple[Outcomes, bool]]) -> tuple[Outcomes, bool]:
    """Run tests again, with more time, that the machine starved, so that a busy machine makes the same pack.

    ``run`` takes the time that they have. Raises StarvedTestsError if the last run is starved, too.
    """
    for wall_s in _WALLS_S[:-1]:
        try:
            return run(wall_s)
        except grader.StarvedTestsError:
            continue
    return run(_WALLS_S[-1])


def _run_file(tree: Path, file: str, note: Path, wall_s: float) -> tuple[Outcomes, bool]:
    # Opened before the process gives up writing.
    with note.open("w", encoding="utf-8") as lines:
        # Without bound: one test that needs much memory would end the survey of its whole file.
        return grader.run_tests(tree, [file], CallRecorder(tree, lines), bounded=False, wall_s=wall_s)


def _run_with_other_seed(tree: Path, file: str, wall_s: float) -> tuple[Outcomes, bool]:
    """Run a test file in a process that orders sets otherwise: ids and outcomes that depend on that are none.

    One seed orders strings alike everywhere, but not None, whose hash is its address in Python 3.11: tests
    that are made from a set have other ids with another build of Python.
    """
    words = [sys.executable, "-s", "-P", "-B", "-c", _RUN, str(Path(__file__).parents[1])]
    done = subprocess.run(
        [*words, str(tree), file, str(wall_s)],
        env={**os.environ, "PYTHONHASHSEED": _OTHER_SEED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=wall_s + _START_S,
        check=False,
    )
    if done.returncode == grader.STARVED_STATUS:
        raise grader.StarvedTestsError
    done.check_returncode()
    outcomes, honest = json.loads(done.stdout)
    return (outcomes if honest else {}), honest


def _passed(outcomes: Outcomes) -> set[str]:
    return {node for node, (outcome, _) in outcomes.items() if outcome == "passed"}


def test_files(hidden: Path) -> list[str]:
    """Return the test files of a tree, relative to it."""
    files = [path for path in hidden.rglob("*.py") if path.name != "conftest.py"]
    names = [path.relative_to(hidden).as_posix() for path in files if "test" in path.name]
    return sorted(names)


def select(found: Survey, path: str, first_line: int, draw: random.Random) -> list[str]:
    """Return the tests that judge a function: those that call it, and some others of their files."""
    callers = sorted(set(found.callers.get((path, first_line), ())))
    draw.shuffle(callers)
    files = {node.partition("::")[0] for node in callers}
    others = sorted(set(found.seconds) - set(callers))
    others = [node for node in others if node.partition("::")[0] in files]
    draw.shuffle(others)
    chosen: list[str] = []
    total_s = 0.0
    for node in (*callers[:_MOST_TESTS], *others[: _MOST_TESTS // 2]):
        total_s += found.seconds[node]
        if total_s > _MOST_S:
            break
        chosen.append(node)
    return sorted(chosen) if callers else []
