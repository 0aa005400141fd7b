"""Runs the tests in several processes and adds up the outcomes: ``python scripts/run_tests.py [WORDS]``.

Ray, vLLM and torch load native libraries that do not always survive each other's end. A test file that starts
Ray gets a process of its own, and the others share one for each part of the product, so that a process that
dies takes the tests of one group with it and is named. The exit status is 0 only if every group ended well.

The words are pytest's: paths choose what runs, and everything else is passed to each group. Before the tests,
the environments are set up (not with ``--no-environments``); those that are missing are listed at the end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

NO_ENVIRONMENTS = "--no-environments"

PARTS = {
    "architecture": ("tests/architecture",),
    "units of the trainer": ("tests/unit/trainer",),
    "units of the service": ("tests/unit",),
    "contract": ("tests/contract",),
    "abuse": ("tests/abuse",),
    "integration": ("tests",),
}
"""Group to the folders of its tests; a file belongs to the first that holds it."""

STARTS_RAY = re.compile(r"\bmark\.ray\b")
LEDGER = "tests.harness.ledger"
"""The plugin that writes one line for each event, so that a crash loses none of them."""

EXIT_NOTHING_RAN = 5
STOPS_EARLY = re.compile(r"-x|--exitfirst|--maxfail.*|--stepwise|--sw")


@dataclass
class Group:
    """Tests that share a process, and what became of them."""

    name: str
    targets: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    crash: str = ""
    seconds: float = 0.0
    status: int = 0

    @property
    def ended_well(self) -> bool:
        """Whether nothing failed in the group."""
        return self.status in (0, EXIT_NOTHING_RAN) and not self.failed and not self.crash


def main(words: list[str], root: Path = ROOT) -> int:
    """Run everything that the words ask for; the exit status."""
    setting_up = NO_ENVIRONMENTS not in words
    targets, options = divided([word for word in words if word != NO_ENVIRONMENTS], root)
    groups = grouped(targets, root)
    notes = set_up_environments() if setting_up else []
    done: list[Group] = []
    for number, group in enumerate(groups, 1):
        print(f"\n== tests {number} of {len(groups)}: {group.name}", flush=True)
        run(group, options, root)
        done.append(group)
        if not group.ended_well and any(STOPS_EARLY.fullmatch(word) for word in options):
            break
    report(done, len(groups), missing_environments(notes) if setting_up else [])
    nothing_ran = all(group.status == EXIT_NOTHING_RAN for group in done)
    return 0 if all(group.ended_well for group in done) and not nothing_ran else 1


def divided(words: list[str], root: Path) -> tuple[list[str], list[str]]:
    """The words that name tests, all tests when there are none, and the options."""
    named = [word for word in words if not word.startswith("-")]
    targets = [word for word in named if (root / word.partition("::")[0]).exists()]
    return targets or ["tests"], [word for word in words if word not in targets]


def grouped(targets: list[str], root: Path) -> list[Group]:
    """The tests that were asked for, by group; groups that start Ray come last."""
    shared = {name: Group(name) for name in PARTS}
    alone: dict[str, Group] = {}
    for target in targets:
        path = root / target.partition("::")[0]
        for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            name = file.resolve().relative_to(root).as_posix()
            words = name if path.is_dir() else target
            if STARTS_RAY.search(file.read_text(encoding="utf-8")):
                alone.setdefault(name, Group(name)).targets.append(words)
            else:
                shared[part_of(name)].targets.append(words)
    return [group for group in (*shared.values(), *alone.values()) if group.targets]


def part_of(file: str) -> str:
    """The group of a file that does not need a process of its own."""
    for name, folders in PARTS.items():
        if any(file.startswith(f"{folder}/") for folder in folders):
            return name
    raise SystemExit(f"{file} is not below tests/")


def run(group: Group, options: list[str], root: Path) -> None:
    """Run the tests of one group in a process, whose output goes to the terminal."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        ledger = Path(folder) / "ledger.jsonl"
        ledger.touch()
        # With -X, and not by an environment variable, which the programs under test would inherit.
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "pytest",
            "-p",
            LEDGER,
            *options,
            *group.targets,
        ]
        variables = {**os.environ, "TEST_LEDGER": str(ledger)}
        group.status = subprocess.run(command, cwd=root, env=variables, check=False).returncode
        lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    group.seconds = time.monotonic() - began
    counted(group, lines)


def counted(group: Group, lines: list[dict[str, str]]) -> None:
    """Add up the events of a group, and say how its process died if it did."""
    running = ""
    for line in lines:
        match line["event"]:
            case "start":
                running = line["test"]
            case "end":
                running = ""
            case "failed":
                group.counts["failed"] += 1
                group.failed.append(line["test"])
            case outcome:
                group.counts[outcome] += 1
    finished = any(line["event"] == "finished" for line in lines)
    if group.status < 0 or not finished:
        how = signal.Signals(-group.status).name if group.status < 0 else f"status {group.status}"
        place = f"in {running}" if running else "after its last test" if finished else "outside of a test"
        group.crash = f"{group.name}: the process ended by {how}, {place}"
        group.counts["failed"] += 1
    elif group.status not in (0, EXIT_NOTHING_RAN) and not group.failed:
        group.crash = f"{group.name}: pytest ended with status {group.status} though no test failed"
        group.counts["failed"] += 1


def set_up_environments() -> list[str]:
    """Set up all environments but the optional ones; what was said about it."""
    print("== environments", flush=True)
    command = [str(Path(sys.executable).with_name("sandbox-service")), "envs", "setup", "all"]
    lines = []
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


def missing_environments(notes: list[str]) -> list[str]:
    """A line for each environment that is not set up on this machine, with the reason."""
    from sandbox_service.environments.provisions import default_root, recipes

    missing = [recipe for recipe in recipes().values() if not recipe.folder(default_root()).is_dir()]
    reasons = {recipe.name: recipe.why_optional for recipe in missing}
    for name, _, reason in (note.partition(": ") for note in notes):
        if name in reasons:
            reasons[name] = reason
    return [f"{name}: {reason or 'the set-up did not say why'}" for name, reason in reasons.items()]


def report(done: list[Group], planned: int, missing: list[str]) -> None:
    """Print the table of groups, all failures, what is missing, and the sum on the last line."""
    print(f"\n== results\n{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}  group")
    for group in done:
        counts = group.counts
        figures = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}{group.seconds:>9.0f}"
        print(f"{figures}  {group.name}")
    if len(done) < planned:
        print(f"not run after the failure: {planned - len(done)} groups")
    for title, lines in (
        ("failed", [test for group in done for test in group.failed]),
        ("crashed", [group.crash for group in done if group.crash]),
        ("environments that are not set up, whose tests were skipped", missing),
    ):
        if lines:
            print(f"\n{title}:", *lines, sep="\n  ")
    total = sum((group.counts for group in done), Counter())
    print(f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
