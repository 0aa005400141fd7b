"""Generate the pack: fetch the packages, put defects into them, prove each, and write the tasks.

    prepare.py PACKAGES DATA

writes ``DATA/train`` and ``DATA/test`` (folders of tasks, split by package) and ``DATA/packages`` (pytest,
for agents and tests). Packages are generated side by side. One that fails is left out, if enough tasks
remain; one that only lacked time is not, since a busy machine must make the same pack. Finished packages are
kept in the folder that ENVIRONMENT_SETUP_KEPT names until the pack is whole, so that a set-up that was
stopped continues with the others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from . import generation
from .sources import Package, fetch, read_packages

_LEAST_TASKS = 300
_CPU_S_PER_TASK = 6.0
"""Bound of a package's CPU time, for each task that it should have."""
PACKAGE_S = 7200.0
"""Time after which the set-up ends without a package, whose CPU time a busy machine did not give."""
_REPORT_S = 10.0
_BAR = 30
_OFFERED = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging")
_HERE = Path(__file__).resolve().parent
_WORKER = """
import sys
from pathlib import Path
_, folder, name, packages, output, pin = sys.argv
sys.path.append(folder)
from setup.prepare import generate_one
generate_one(name, Path(packages), Path(output), pin)
"""


def main() -> None:
    """Generate everything, or fail with the reason."""
    packages, data = Path(sys.argv[1]), Path(sys.argv[2])
    # In DATA when it is run by hand: a rename must not cross file systems.
    kept = Path(os.environ.get("ENVIRONMENT_SETUP_KEPT") or data / ".kept")
    kept.mkdir(exist_ok=True)
    offered = data / "packages"
    offered.mkdir()
    # A module of pytest's own, under the name of its former dependency.
    shutil.copyfile(packages / "py.py", offered / "py.py")
    for name in _OFFERED:
        shutil.copytree(packages / name, offered / name)
        for info in packages.glob(f"{name}-*.dist-info"):
            shutil.copytree(info, offered / info.name)
    pin = pytest_pin(packages)
    (data / "offered.txt").write_text(f"{pin}\n", encoding="utf-8")
    chosen = read_packages(_HERE.parent / "data" / "packages.toml")
    if starved := generate_all(chosen, packages, data, kept, pin):
        sys.exit(
            f"not done within {PACKAGE_S:g} s: {', '.join(starved)}; set up again, which continues with "
            "what is missing, on a machine with less to do"
        )
    counts = gather(chosen, kept, data)
    report(f"tasks: {counts['train']} to train, {counts['test']} held out")
    if sum(counts.values()) < _LEAST_TASKS or not all(counts.values()):
        sys.exit(
            f"only {counts} tasks could be proven; at least {_LEAST_TASKS}, and some of each, are needed"
        )
    shutil.rmtree(kept)


def generate_all(chosen: list[Package], packages: Path, data: Path, kept: Path, pin: str) -> list[str]:
    """Generate the packages that are not yet in ``kept``; report progress, and those that fail.

    Returns the names of those that were not done in time.
    """
    starved: list[str] = []
    # The largest first, so that none of them is left for the end.
    missing = sorted(
        (each for each in chosen if not (kept / each.name).is_dir()), key=lambda each: -each.tasks
    )
    if len(missing) < len(chosen):
        report(f"{len(chosen) - len(missing)} packages were finished by an earlier set-up")
    with ThreadPoolExecutor(max(4, len(os.sched_getaffinity(0)))) as pool:
        runs = {pool.submit(run_worker, each, packages, data, kept, pin): each for each in missing}
        running: set[Future[None]] = set(runs)
        begun = time.monotonic()
        while running:
            ended, running = wait(running, _REPORT_S)
            for run in ended:
                if (error := run.exception()) is not None:
                    report(f"{runs[run].name}: left out: {_reason(error)}")
                    if isinstance(error, subprocess.TimeoutExpired):
                        starved.append(runs[run].name)
            report(progress(chosen, kept, time.monotonic() - begun))
    return sorted(starved)


def run_worker(package: Package, packages: Path, data: Path, kept: Path, pin: str) -> None:
    """Generate one package's tasks in a process of its own, whose children run the package's tests."""
    draft = kept / f"{package.name}.part"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    words = [interpreter(), "-s", "-P", "-B", "-c", _WORKER, str(_HERE.parent), package.name]
    words += [str(packages), str(draft), pin]
    # As the tests of a task run: pytest from the offered packages, and one seed that orders sets.
    settings = {**os.environ, "PYTHONPATH": str(data / "packages"), "PYTHONHASHSEED": "0"}
    subprocess.run(words, check=True, env=settings, stdin=subprocess.DEVNULL, timeout=PACKAGE_S)
    draft.rename(kept / package.name)


def gather(chosen: list[Package], kept: Path, data: Path) -> dict[str, int]:
    """Move the tasks of the finished packages into their splits; return the number of each split's tasks."""
    counts = {package.split: 0 for package in chosen}
    for split in counts:
        (data / split).mkdir()
    for package in chosen:
        for task in sorted((kept / package.name).glob("*/task.toml")):
            # Hard links, so that an attempt that is stopped or has too few tasks loses none.
            shutil.copytree(task.parent, data / package.split / task.parent.name, copy_function=os.link)
            counts[package.split] += 1
    return counts


def progress(chosen: list[Package], kept: Path, seconds: float) -> str:
    """Return a bar of the tasks that are written, of those that there should be."""
    wanted = sum(package.tasks for package in chosen)
    written = len(list(kept.glob("*/*/task.toml")))
    finished = sum((kept / package.name).is_dir() for package in chosen)
    bar = f"{'#' * (_BAR * written // wanted):.<{_BAR}}"
    return f"[{bar}] {written} of {wanted} tasks, {finished} of {len(chosen)} packages, {seconds:.0f} s"


def report(line: str) -> None:
    """Show progress: ``envs setup`` passes our output on, line by line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def pytest_pin(packages: Path) -> str:
    """Return the pin of the installed pytest."""
    (info,) = packages.glob("pytest-*.dist-info")
    return info.name.removesuffix(".dist-info").replace("-", "==")


def interpreter() -> str:
    """Return the Python with which boxes run tests: the system's where it is 3.11, otherwise this one."""
    found = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if found is not None:
        words = [found, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 11))"]
        if subprocess.run(words, check=False).returncode == 0:
            return found
    return sys.executable


def generate_one(name: str, packages: Path, output: Path, pin: str) -> None:
    """Fetch one package and generate its tasks. The body of a worker."""
    import pytest  # noqa: F401  # imported once, before the children that need it are forked

    listed = read_packages(_HERE.parent / "data" / "packages.toml")
    (package,) = [each for each in listed if each.name == name]
    distributions = output / ".distributions"
    distributions.mkdir()
    fetch(package, _HERE / "distributions.txt", packages, distributions)
    generation.generate(package, distributions, output, pin, _CPU_S_PER_TASK * package.tasks, report)
    shutil.rmtree(distributions)


def _reason(error: BaseException) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done within {PACKAGE_S:g} s"
    if isinstance(error, subprocess.CalledProcessError):
        return f"its generator ended with status {error.returncode}; the lines above say why"
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
