"""A run by the command line in which something is killed, and what its ledger says in the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from local_processes.prctl import end_with_parent
from tests.harness.family import RAY_AGENTS, Family
from trainer.batches.journal import journal_file

ROOT = Path(__file__).parents[2]

COMMANDS = ("driver", "interrupt")
"""Names of signals to the command itself: SIGKILL, as to every other process, and Ctrl-C."""

RUN = """
seed = {seed}
steps = {steps}
chat = {{ tools = "none", system_prompt = "Compute with Python, then submit." }}
tasks = {{ environment = "code", splits = ["arithmetic_train_easy"] }}
service = {{ start = ["sandbox.kind=process"] }}
algorithm = {{ drop_flat_groups = false }}
learner = {{ optimizer = {{ learning_rate = 1e-4 }} }}
evaluation = {{ splits = ["arithmetic_test_easy"], limit = {held_out} }}
checkpoint = {{ every = {checkpoint_every} }}
tracking = {{ progress = false }}

[rollout]
groups = {groups}
group_size = {group_size}
max_turns = 3
sampling = {{ max_turn_tokens = 40 }}
"""
"""Flat groups stay in, so that a step consumes the same trajectories in every run."""


def train_command() -> Path:
    """The command of this very installation."""
    return Path(sys.executable).with_name("sandbox-trainer")


@dataclass(frozen=True)
class RunPlan:
    """A short run."""

    folder: Path
    model: str
    """Settings of the model, as TOML."""
    steps: int = 12
    groups: int = 8
    group_size: int = 4
    held_out: int = 32
    checkpoint_every: int = 3
    seed: int = 0
    deadline_s: float = 900.0

    def write(self, more: str = "") -> Path:
        """The run file."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        file = self.folder / "run.toml"
        self.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{RUN.format(**values)}\n[model]\n{self.model}\n{more}")
        return file


@dataclass(frozen=True)
class Hit:
    """Something that was killed."""

    what: str
    at: float
    """Unix seconds."""
    shown: int
    """The last step whose metrics were there."""


@dataclass
class KilledRun:
    """One run, as its command's user sees it."""

    plan: RunPlan
    name: str
    file: Path
    began: float = field(default_factory=time.time)
    ended: float = 0.0
    exits: list[int] = field(default_factory=list)
    family: Family = field(default_factory=Family)
    hits: list[Hit] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The run's own."""
        return self.plan.folder / self.name

    def start(self, *options: str) -> None:
        """Start the command, in a session of its own."""
        words = [f"root={self.plan.folder}", f"name={self.name}", *options]
        with (self.plan.folder / f"{self.name}.log").open("ab") as log:
            self.command = subprocess.Popen(
                [train_command(), "train", self.file, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self.family.commands.append(self.command.pid)

    def until_step(self, step: int) -> bool:
        """Wait for a step's metrics. False when the command ends before, or does not get there in time."""
        deadline = time.monotonic() + self.plan.deadline_s
        while self.shown() < step:
            if self.command.poll() is not None or time.monotonic() > deadline:
                return False
            self.family.look()
            time.sleep(0.1)
        return True

    def until_there(self, what: str) -> bool:
        """Wait until the run has such a process. False when the command ends before, or has none in time."""
        deadline = time.monotonic() + self.plan.deadline_s
        while self.command.poll() is None and time.monotonic() < deadline:
            self.family.look()
            with contextlib.suppress(LookupError):
                return self.family.find(what) > 0
            time.sleep(0.1)
        return False

    def kill(self, what: str) -> None:
        """Hit one thing. Raises LookupError when the run has no such process."""
        self.family.look()
        pid = self.command.pid if what in COMMANDS else self.family.find(what)
        self.hits.append(Hit(what, time.time(), self.shown()))
        if what == "interrupt":
            os.killpg(pid, signal.SIGINT)  # a terminal tells everybody in the foreground
        else:
            os.kill(pid, signal.SIGKILL)

    def until_end(self) -> int:
        """The command's exit code; a command that does not end is killed, and counts as -9."""
        deadline = time.monotonic() + self.plan.deadline_s
        while self.command.poll() is None and time.monotonic() < deadline:
            self.family.look()
            time.sleep(0.2)
        if self.command.poll() is None:
            self.command.kill()
        self.exits.append(self.command.wait())
        self.ended = time.time()
        return self.exits[-1]

    def stop(self) -> None:
        """End a command that is still there, by whatever it takes; its processes follow it."""
        if self.command.poll() is None:
            self.command.send_signal(signal.SIGINT)
            try:
                self.command.wait(60)
            except subprocess.TimeoutExpired:
                self.command.kill()
                self.command.wait()

    def resume_after_a_kill(self, *options: str) -> int:
        """Kill the command, wait for the end of its processes, and resume the run; the exit code."""
        self.kill_driver()
        self.start("--resume", *options)
        return self.until_end()

    def kill_driver(self) -> None:
        """Kill the command, and wait for the end of its processes."""
        self.kill("driver")
        self.until_end()
        left = self.family.left(wall_timeout_s=120, besides=RAY_AGENTS)
        assert left == [], left

    def said(self) -> str:
        """Return the output of the command."""
        return (self.plan.folder / f"{self.name}.log").read_text()

    def shown(self) -> int:
        """The last step whose metrics are there."""
        return max((line["step"] for line in self.logged()), default=-1)

    def logged(self) -> list[dict]:
        """Lines of steps in ``metrics.jsonl``; evaluations have lines of their own."""
        return [line for line in self.lines("metrics.jsonl") if "reward/mean" in line["metrics"]]

    def lines(self, name: str) -> list[dict]:
        """A file of JSON lines, as far as it is written."""
        file = self.folder / name
        whole = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in whole if line]


def _end_with_parent() -> None:
    end_with_parent(signal.SIGINT)  # Ctrl-C: the command ends what it started


def short_run(folder: Path, name: str, *, groups: int = 4, deadline_s: float = 1500) -> KilledRun:
    """A run of six steps of a tiny model, with two episodes a group; not started."""
    plan = RunPlan(
        folder,
        'kind = "tiny"\nlayers = 2',
        steps=6,
        groups=groups,
        group_size=2,
        held_out=4,
        checkpoint_every=2,
        deadline_s=deadline_s,
    )
    return KilledRun(plan, name, plan.write())


@dataclass(frozen=True)
class Ledger:
    """The end of every group and every trajectory."""

    consumed: list[list[str]]
    """Trajectories by step."""
    wrong: tuple[str, ...]
    """Sentences about what was lost or repeated."""


def ledger(run: KilledRun) -> Ledger:
    """By the run's own journal, and the file beside it."""
    lines = run.lines("consumed.jsonl")
    ids = [each for line in lines for each in line["trajectories"]]
    events = _events(journal_file(run.folder))
    issued = [event["spec"]["index"] for event in events if event["kind"] == "issued"]
    ended = [event["index"] for event in events if event["kind"] == "ended"]
    ready = {event["index"] for event in events if event["kind"] == "ended" and event["fate"] == "ready"}
    used = [index for event in events if event["kind"] == "assembled" for index in event["fresh"]]
    last = max(used, default=-1)  # groups after it were begun for a step that never came
    plan = run.plan
    checks = {
        "steps are missing or repeated": [line["step"] for line in lines] == list(range(plan.steps)),
        "a step has too many or too few trajectories": [len(line["trajectories"]) for line in lines]
        == [plan.groups * plan.group_size] * plan.steps,
        "a trajectory was consumed twice": not _twice(ids),
        "a group was issued twice": not _twice(issued),
        "a group ended twice": not _twice(ended),
        "a group was used twice": not _twice(used),
        "a group that was ready was passed over": all(index > last for index in ready - set(used)),
        "a group that was issued was passed over": all(index > last for index in set(issued) - set(ended)),
        "the file tells of other groups": {int(each.partition(".")[0]) for each in ids} == set(used),
    }
    wrong = tuple(sentence for sentence, fine in checks.items() if not fine)
    return Ledger([line["trajectories"] for line in lines], wrong)


def _events(journal: Path) -> list[dict]:
    if not journal.exists():
        return []
    connection = sqlite3.connect(journal)
    try:
        return [json.loads(body) for (body,) in connection.execute("SELECT body FROM events")]
    finally:
        connection.close()


def _twice(items: list) -> list:
    return [item for item, times in Counter(items).items() if times > 1]
