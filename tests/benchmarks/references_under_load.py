"""The reference policy over the bundled tasks on a busy machine: every task has to be solved, every time.

    python -m tests.benchmarks.references_under_load --load 30 --times 5 --output references.json

Busy loops keep the processors from the service while ``sandbox-service demo`` plays the bundled tasks, so
many times in a row, each with a service of its own. Words after -- are settings of the service, such as
sandbox.kind=process. Prints JSON: the tally and the load average of each time. The exit code is 1 when a
reference was not solved.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from local_processes.prctl import end_with_parent
from service_cli.commands.demo import unsolved
from service_cli.policies.outcomes import EpisodeFailure, PlayedOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Round:
    """One run over all tasks."""

    episodes: int
    solved: int
    failures: dict[str, int]
    """Episodes without a verdict, by error code."""
    retries: dict[str, int]
    """Failures after which an episode was played again, by error code."""
    unsolved: list[str]
    exit_code: int
    elapsed_s: float
    load_average: list[float]
    """The machine's load over the last minute, every few seconds."""


@contextlib.contextmanager
def busy(loops: int, longest_s: float) -> Iterator[None]:
    """Run busy loops that end with this block, with this process, or after ``longest_s``."""
    # In sessions of their own: kernels may share processors out by session first. The kernel signals
    # ``timeout`` when this process is killed, and that ends its loop.
    command = ["timeout", f"{longest_s:g}", "sh", "-c", "while :; do :; done"]
    spinners = [
        subprocess.Popen(command, start_new_session=True, preexec_fn=end_with_parent) for _ in range(loops)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(spinner.pid, signal.SIGKILL)
        for spinner in spinners:
            spinner.wait()


@contextlib.contextmanager
def load_averages() -> Iterator[list[float]]:
    """Collect the load average while the block runs."""
    found: list[float] = []
    ended = Event()

    def collect() -> None:
        while not ended.wait(5.0):
            found.append(round(os.getloadavg()[0], 1))

    thread = Thread(target=collect)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def play(words: list[str], loops: int, longest_s: float) -> Round:
    """One run of the demo; the machine is busy from when the service is ready."""
    command = [
        sys.executable,
        "-c",
        "from service_cli.commands.app import main; main()",
        "demo",
        "--json",
        *words,
    ]
    started = time.monotonic()
    with (
        contextlib.ExitStack() as load,
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+") as results,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'clients'}"},
            stdout=results,
            stderr=subprocess.PIPE,
            text=True,
        ) as demo,
    ):
        averages: list[float] = []
        assert demo.stderr is not None
        for line in demo.stderr:
            sys.stderr.write(line)
            if line.startswith("ready: "):
                load.enter_context(busy(loops, longest_s))
                averages = load.enter_context(load_averages())
            elif line.startswith("stopping "):
                load.close()
        results.seek(0)
        text = results.read()
    episodes = json.loads(text)["episodes"] if text else []
    failed = [each["failed"]["code"] for each in episodes if each["failed"]]
    return Round(
        episodes=len(episodes),
        solved=sum(each["success"] is True for each in episodes),
        failures=dict(Counter(failed)),
        retries=dict(Counter(each["code"] for episode in episodes for each in episode["retried"])),
        unsolved=unsolved([outcome(each) for each in episodes]),
        exit_code=demo.returncode,
        elapsed_s=round(time.monotonic() - started, 1),
        load_average=averages,
    )


def outcome(episode: dict[str, object]) -> PlayedOutcome:
    """An episode of the demo's JSON."""
    failed = episode["failed"]
    return PlayedOutcome(
        **(episode | {"failed": EpisodeFailure(**failed) if isinstance(failed, dict) else None})  # type: ignore[arg-type]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--load", type=int, default=30, help="busy loops beside the service")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--longest-s", type=float, default=900, help="for one time; the loops end then")
    parser.add_argument("--output", type=Path)
    parser.add_argument("words", nargs="*", help="settings of the service")
    options = parser.parse_args()
    rounds = [play(options.words, options.load, options.longest_s) for _ in range(options.times)]
    right = all(each.exit_code == 0 and each.solved == each.episodes for each in rounds)
    report = {
        "load": options.load,
        "processors": os.cpu_count(),
        "all_right": right,
        "rounds": [asdict(each) for each in rounds],
    }
    text = json.dumps(report, indent=2)
    sys.stdout.write(text + "\n")
    if options.output is not None:
        options.output.write_text(text + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
