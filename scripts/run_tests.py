"""Run the tests in several processes and add up the outcomes: ``python scripts/run_tests.py [WORDS]``.

Ray, vLLM and torch load native libraries that do not always survive each other's end. A test file that starts
Ray therefore gets a process of its own, those with vLLM alone share one, and the other files share one for
each part of the product: a process that dies ends the tests of one group only, and the group is named. Up to
three groups run at a time, if possible such that start Ray beside such that do not. The output of a group is
printed when the group has ended; until then a line every 30 s says how far each group is and which test runs.

The tests' folders (``tmp_path``) lie in a folder of their group, which goes when the group has passed, and
stays with ledger and output when a test has failed; the report names it.

Words are passed to pytest: paths choose the tests, and all else goes to each group. The environments are set
up before the tests; those that are missing are listed at the end, after the times of the groups and of the
slowest tests. The exit status is 0 only if every group passed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]

PARTS = {
    "architecture": ("tests/architecture",),
    "contract of environments": ("tests/contract/environments",),
    "units of environments": ("tests/unit/sandbox_service/environments",),
    "units of the learner": ("tests/unit/trainer/update", "tests/unit/trainer/weight_sync"),
    "units of the trainer": ("tests/unit/trainer",),
    "units of the runner": ("tests/unit/sandbox_service/runner",),
    "units of the service": ("tests/unit",),
    "contract": ("tests/contract",),
    "abuse": ("tests/abuse",),
    "integration of environments": ("tests/integration/environments",),
    "integration of the trainer": ("tests/integration/trainer", "tests/integration/examples"),
    "integration of adapters": ("tests/integration/adapters", "tests/integration/trajectories"),
    "integration": ("tests",),
}
"""Group to the folders of its tests, in the order of starting; a file belongs to the first that holds it."""

LONG = ("tests/integration/trainer/", "tests/integration/examples/")
"""Folders of the longest tests that start Ray."""
STARTS_RAY = re.compile(r"\bmark\.ray\b")
LOADS_VLLM = re.compile(r"\bmark\.vllm\b")
ENGINES = "rollout engines"
"""The group of the tests that load vLLM and do not start Ray."""
LEDGER = "tests.harness.ledger"
"""The plugin that writes each event at once, so that a crash loses none."""

EXIT_NOTHING_RAN = 5
STOPS_EARLY = re.compile(r"-x|--exitfirst|--maxfail.*|--stepwise|--sw")
PROGRESS_S = 30.0
SLOWEST = 25
FAIR = {"RAY_worker_niceness": "0", "OMP_NUM_THREADS": "1"}
"""By these, groups share the cores: Ray's niceness is 15 by default, and torch's threads wait by spinning."""
SET_UP = (str(Path(sys.executable).with_name("sandbox-service")), "envs", "setup", "all")
"""The command that sets up all environments but the optional ones."""
THIRD_GIB = 16
"""Free memory with which a third group runs: each may have engines and a Ray cluster."""


@dataclass
class Group:
    """Tests that share a process, and their outcomes."""

    name: str
    starts_ray: bool = False
    targets: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    tests: dict[str, float] = field(default_factory=dict)
    """Test to its seconds, set-up and clean-up included."""
    crash: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the process and of the descendants that it waited for."""
    status: int | None = None
    """Exit status of pytest; None before the group has ended."""
    began: float = 0.0
    """Time of the monotonic clock."""
    ledger: Path | None = None
    """The file of its events, while it runs."""
    kept: Path | None = None
    """The folder of its tests, if it failed."""

    @property
    def passed(self) -> bool:
        """Whether no test failed and the process did not crash."""
        return self.status in (0, EXIT_NOTHING_RAN) and not self.failed and not self.crash

    def progress(self) -> str:
        """Return a line that says how far the group is."""
        events = read_events(self.ledger) if self.ledger is not None else []
        counts = Counter(event["event"] for event in events)
        last = events[-1] if events else {"event": "", "test": ""}
        running = last["test"] if last["event"] == "start" else "between two tests"
        if not counts["start"]:
            running = "no test has begun"
        elif counts["finished"]:
            running = "all tests have ended, and its process has not"
        figures = f"{counts['passed']} passed, {counts['failed']} failed"
        return f"{self.name}: {time.monotonic() - self.began:.0f} s, {figures}; {running}"


def main(
    words: list[str],
    root: Path = ROOT,
    set_up: Sequence[str] = SET_UP,
    environments: Path | None = None,
) -> int:
    """Run the tests that the words ask for and return the exit status.

    ``set_up`` is the command that sets up environments, in the folder ``environments`` or the default one.
    """
    options, rest = read_words(words)
    targets, passed_on = split_targets(rest, root)
    groups = group_files(targets, root)
    notes = set_up_environments(set_up) if options.environments else []
    Schedule(groups, passed_on, root).run(options.jobs, options.progress)
    print_report(groups, missing_environments(notes, environments) if options.environments else [])
    nothing_ran = all(group.status in (None, EXIT_NOTHING_RAN) for group in groups)
    return 0 if all(group.passed for group in groups) and not nothing_ran else 1


def jobs_here(cores: int, memory_gib: float) -> int:
    """Return how many groups run at a time: they compute for about half of their time."""
    return min(2, cores) + (cores > 1 and memory_gib >= THIRD_GIB)


def read_words(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return this script's options, and the words for pytest in their order."""
    parser = argparse.ArgumentParser(
        prog="run_tests.py",
        usage="%(prog)s [-h] [--no-environments] [--jobs N] [PATHS AND OPTIONS OF PYTEST]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--no-environments",
        dest="environments",
        action="store_false",
        help="do not set up environments before the tests",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        default=jobs_here(os.cpu_count() or 1, psutil.virtual_memory().available / 2**30),
        help="number of groups that run at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--progress",
        type=float,
        metavar="SECONDS",
        default=PROGRESS_S,
        help="time between two lines of progress (default: %(default)g); one job prints its output at once",
    )
    return parser.parse_known_args(words)


def split_targets(words: list[str], root: Path) -> tuple[list[str], list[str]]:
    """Return the words that name tests (all tests if there are none), and the other words."""
    named = [word for word in words if not word.startswith("-")]
    targets = [word for word in named if (root / word.partition("::")[0]).exists()]
    return targets or ["tests"], [word for word in words if word not in targets]


def group_files(targets: list[str], root: Path) -> list[Group]:
    """Group the test files of the targets; groups that start Ray come last."""
    shared = {name: Group(name) for name in (*PARTS, ENGINES)}
    alone: dict[str, Group] = {}
    for target in targets:
        path = root / target.partition("::")[0]
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            name = file.resolve().relative_to(root).as_posix()
            words = name if path.is_dir() else target
            text = file.read_text(encoding="utf-8")
            if STARTS_RAY.search(text):
                alone.setdefault(name, Group(name, starts_ray=True)).targets.append(words)
            else:
                shared[ENGINES if LOADS_VLLM.search(text) else part_of(name)].targets.append(words)
    # Those of the trainer take longest: begun last, one would run when nothing else does.
    last = sorted(alone.values(), key=lambda group: not group.name.startswith(LONG))
    return [group for group in (*shared.values(), *last) if group.targets]


def part_of(file: str) -> str:
    """Return the group of a file that does not need a process of its own."""
    for name, folders in PARTS.items():
        if any(file.startswith(f"{folder}/") for folder in folders):
            return name
    raise SystemExit(f"{file} is not below tests/")


class Schedule:
    """Runs groups, several at a time, until all have ended or the first failure if pytest's words say so."""

    def __init__(self, groups: list[Group], options: list[str], root: Path) -> None:
        self._groups = groups
        self._options = options
        self._root = root
        self._stops_early = any(STOPS_EARLY.fullmatch(word) for word in options)
        self._pending = list(groups)
        self._running: list[Group] = []
        self._lock = threading.Lock()

    def run(self, jobs: int, progress_s: float) -> None:
        """Run the groups in so many threads; print progress if their output is captured."""
        jobs = max(1, min(jobs, len(self._groups)))
        captured = jobs > 1
        with ThreadPoolExecutor(jobs) as threads:
            try:
                waiting = {threads.submit(self._run_pending, captured) for _ in range(jobs)}
                while waiting:
                    done, waiting = wait(waiting, timeout=progress_s, return_when=FIRST_COMPLETED)
                    for each in done:
                        each.result()
                    if captured and not done:
                        self._print_progress()
            except BaseException:  # Ctrl-C ends the groups that run; no other is to start
                self._pending.clear()
                raise

    def _print_progress(self) -> None:
        with self._lock:
            for group in self._running:
                print(f"-- {group.progress()}", flush=True)

    def _run_pending(self, captured: bool) -> None:
        while (group := self._next()) is not None:
            output = run_group(group, self._options, self._root, captured)
            with self._lock:
                self._running.remove(group)
                if self._stops_early and not group.passed:
                    self._pending.clear()
                if captured:
                    print(f"\n== output of {group.name}\n{output}", flush=True)

    def _next(self) -> Group | None:
        """Take a pending group, of the kind of which fewer run: Ray needs much memory."""
        with self._lock:
            if not self._pending:
                return None
            running = Counter(group.starts_ray for group in self._running)
            group = min(self._pending, key=lambda each: running[each.starts_ray])
            self._pending.remove(group)
            self._running.append(group)
            group.began = time.monotonic()
            number = len(self._groups) - len(self._pending)
            print(f"\n== tests {number} of {len(self._groups)}: {group.name}", flush=True)
            return group


def run_group(group: Group, options: list[str], root: Path, captured: bool) -> str:
    """Run the tests of a group in a process; return its output, or "" if it went to the terminal."""
    folder = Path(tempfile.mkdtemp(prefix="tests-"))
    ledger = group.ledger = folder / "ledger.jsonl"
    ledger.touch()
    # With -X, and not by an environment variable, which the programs under test would inherit.
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-p", LEDGER]
    # By default all runs of a user share one folder, and each run removes those before the last three. The
    # name is short because the path of a socket below it has at most 107 bytes.
    command.append(f"--basetemp={folder / 't'}")
    with (folder / "output").open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [*command, *options, *group.targets],
            cwd=root,
            env={**FAIR, **os.environ, "TEST_LEDGER": str(ledger)},
            stdout=output if captured else None,
            stderr=subprocess.STDOUT if captured else None,
        )
        # Not Popen.wait: wait4 also returns the CPU time.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = group.status = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read()
    group.seconds = time.monotonic() - group.began
    group.cpu_seconds = usage.ru_utime + usage.ru_stime
    count_events(group, group.status, read_events(ledger))
    if group.passed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        group.kept = folder
    return printed


def read_events(ledger: Path) -> list[dict[str, str]]:
    """Return the events of a ledger so far; none if the group has just ended and the file is gone."""
    try:
        text = ledger.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def count_events(group: Group, status: int, events: list[dict[str, str]]) -> None:
    """Add up the outcomes of a group, and describe how its process ended if it crashed."""
    running = ""
    for event in events:
        match event["event"]:
            case "start":
                running = event["test"]
            case "end":
                running = ""
                group.tests[event["test"]] = float(event["seconds"])
            case "failed":
                group.counts["failed"] += 1
                group.failed.append(event["test"])
            case outcome:
                group.counts[outcome] += 1
    finished = any(event["event"] == "finished" for event in events)
    if status < 0 or not finished:
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        place = f"in {running}" if running else "after its last test" if finished else "outside of a test"
        group.crash = f"{group.name}: the process ended by {how}, {place}"
        group.counts["failed"] += 1
    elif status not in (0, EXIT_NOTHING_RAN) and not group.failed:
        group.crash = f"{group.name}: pytest ended with status {status} though no test failed"
        group.counts["failed"] += 1


def set_up_environments(command: Sequence[str]) -> list[str]:
    """Run the command that sets up environments; return the lines that it printed."""
    print("== environments", flush=True)
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "1000"},  # so that each message is a line
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
    return lines


def missing_environments(notes: list[str], folder: Path | None = None) -> list[str]:
    """Return a line for each environment that is not set up on this machine, with the reason."""
    from sandbox_service.environments.provisions import default_root, recipes

    root = folder or default_root()
    missing = [recipe for recipe in recipes().values() if not recipe.folder(root).is_dir()]
    reasons = {recipe.name: recipe.why_optional for recipe in missing}
    for name, _, reason in (note.partition(": ") for note in notes):
        if name in reasons:
            reasons[name] = reason
    return [f"{name}: {reason or 'the set-up did not say why'}" for name, reason in reasons.items()]


def print_report(groups: list[Group], missing: list[str]) -> None:
    """Print outcomes and times by group, all failures, what is missing, and the sum as the last line."""
    done = [group for group in groups if group.status is not None]
    heads = f"{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}{'CPU':>7}"
    print(f"\n== results\n{heads}  group")
    for group in done:
        counts = group.counts
        figures = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
        print(f"{figures}{group.seconds:>9.0f}{group.cpu_seconds:>7.0f}  {group.name}")
    times = {test: seconds for group in done for test, seconds in group.tests.items()}
    slowest = [f"{times[test]:.0f} s  {test}" for test in nlargest(SLOWEST, times, key=times.__getitem__)]
    if len(done) < len(groups):
        print(f"not run after the failure: {len(groups) - len(done)} groups")
    for title, lines in (
        ("slowest", slowest),
        ("failed", [test for group in done for test in group.failed]),
        ("crashed", [group.crash for group in done if group.crash]),
        ("folders of groups that failed", [f"{group.kept}: {group.name}" for group in done if group.kept]),
        ("environments that are not set up, whose tests were skipped", missing),
    ):
        if lines:
            print(f"\n{title}:", *lines, sep="\n  ")
    total = sum((group.counts for group in done), Counter())
    print(f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
