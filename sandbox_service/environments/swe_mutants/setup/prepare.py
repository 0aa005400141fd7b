"""Generate the pack: fetch the packages, put defects into them, prove each, and write the tasks.

    prepare.py PACKAGES DATA

writes ``DATA/train`` and ``DATA/test`` (folders of tasks, split by package) and ``DATA/packages`` (pytest,
for agents and tests), within a bound of time. Packages are generated side by side.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import generation
from .sources import Package, fetch, read_packages

_TIME_S = 540.0
_LEAST_TASKS = 300
_OFFERED = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging")
_HERE = Path(__file__).resolve().parent
_WORKER = """
import sys
from pathlib import Path
_, folder, name, distributions, output, pin, seconds = sys.argv
sys.path.append(folder)
from setup.prepare import generate_one
generate_one(name, Path(distributions), Path(output), pin, float(seconds))
"""


def main() -> None:
    """Generate everything, or fail with the reason."""
    packages, data = Path(sys.argv[1]), Path(sys.argv[2])
    deadline = time.monotonic() + _TIME_S
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
    for split in {package.split for package in chosen}:
        (data / split).mkdir()
    with tempfile.TemporaryDirectory(prefix="swe-mutants-") as folder:
        report(f"fetching {len(chosen)} source distributions")
        fetch(_HERE / "distributions.txt", packages, Path(folder))
        # The largest first, so that none of them is left for the end.
        chosen.sort(key=lambda package: -package.tasks)
        with ThreadPoolExecutor(max(4, len(os.sched_getaffinity(0)))) as pool:
            runs = [pool.submit(_run_worker, each, Path(folder), data, pin, deadline) for each in chosen]
            for run in runs:
                run.result()
    counts = {split: len(list((data / split).glob("*/task.toml"))) for split in ("train", "test")}
    report(f"tasks: {counts['train']} to train, {counts['test']} held out")
    if sum(counts.values()) < _LEAST_TASKS:
        sys.exit(f"only {sum(counts.values())} tasks could be proven within {_TIME_S:g} s")


def report(line: str) -> None:
    """Show progress: ``envs setup`` passes our output on, line by line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def pytest_pin(packages: Path) -> str:
    """Return the pin of the installed pytest."""
    (info,) = packages.glob("pytest-*.dist-info")
    return info.name.removesuffix(".dist-info").replace("-", "==")


def _run_worker(package: Package, distributions: Path, data: Path, pin: str, deadline: float) -> None:
    """Generate one package's tasks in a process of its own, whose children run the package's tests."""
    left_s = max(1.0, deadline - time.monotonic())
    words = [interpreter(), "-s", "-P", "-B", "-c", _WORKER, str(_HERE.parent), package.name]
    words += [str(distributions), str(data / package.split), pin, str(left_s)]
    # As the tests of a task run: pytest from the offered packages, and one seed that orders sets.
    settings = {**os.environ, "PYTHONPATH": str(data / "packages"), "PYTHONHASHSEED": "0"}
    subprocess.run(words, check=True, env=settings, stdin=subprocess.DEVNULL, timeout=left_s + 120)


def interpreter() -> str:
    """Return the Python with which boxes run tests: the system's where it is 3.11, otherwise this one."""
    found = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if found is not None:
        words = [found, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 11))"]
        if subprocess.run(words, check=False).returncode == 0:
            return found
    return sys.executable


def generate_one(name: str, distributions: Path, output: Path, pin: str, seconds: float) -> None:
    """Generate the tasks of one package. The body of a worker."""
    import pytest  # noqa: F401  # imported once, before the children that need it are forked

    packages = read_packages(_HERE.parent / "data" / "packages.toml")
    (package,) = [each for each in packages if each.name == name]
    deadline = time.monotonic() + seconds
    generation.generate(package, distributions, output, pin, deadline, report)


if __name__ == "__main__":
    main()
