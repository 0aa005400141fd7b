"""Ray's alpha sandbox (``ray.experimental.sandbox``) beside our gVisor box: start, command, memory, end.

    python -m tests.benchmarks.ray_sandbox --boxes 6

Both run the same ``runsc`` over the same root folder, one box after another. Ray's backend is called without
its actor, and its bundle is changed in one thing: the root is the unpacked folder in place of an EROFS image,
which takes erofs-utils 1.7 to make. Our box is called as in ``box_kinds``. A command is ``true``, and a line
of Python: in an interpreter of its own there, in the agent's session here. Ratios are Ray's to ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
from ray.experimental.sandbox.backend.gvisor import GVisorSandboxBackend
from ray.experimental.sandbox.config import SandboxConfig as RaySandboxConfig
from ray.experimental.sandbox.image_manager import ImageManager

from sandbox_service.sandboxes.hardening import BOX_PYTHON
from sandbox_service.sandboxes.root_folder import root_folder
from service_cli.bench.machine import describe_machine
from tests.benchmarks.box_kinds import measure, memory_since
from tests.harness.boxes import missing_gvisor

_T = TypeVar("_T")
_COMMANDS = 20
_SAME = {
    "start": "start",
    "shell command": "shell step",
    "Python command": "Python step",
    "idle MiB": "idle MiB",
    "end": "destroy",
}
"""Figure of Ray's sandbox to the figure of our box that it is compared with."""


class _UnpackedImages(ImageManager):
    """Names a folder with an empty EROFS image, in whose place the bundles then have the root folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        (folder / "rootfs.erofs").touch()

    def pull_image(self, image: str, timeout_seconds: float = 120.0, instance_id: str | None = None) -> str:
        return str(self.images_dir)

    def release_image(self, image: str, instance_id: str) -> None:
        pass

    def get_envs(self, image: str) -> list[str]:
        return ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]

    def get_workdir(self, image: str) -> str | None:
        return "/"


def main() -> int:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--boxes", type=int, default=6, help="boxes of each kind")
    options = parser.parse_args()
    if (reason := missing_gvisor()) is not None:
        parser.error(reason)
    ours = measure("gvisor", options.boxes)
    rays = _medians(options.boxes)
    report = {
        "what": "medians; milliseconds, and MiB of memory",
        "boxes": options.boxes,
        "machine": describe_machine(),
        "ray": rays,
        "ours": {name: ours[same] for name, same in _SAME.items()},
        "ratios to ours": {name: round(rays[name] / ours[same], 2) for name, same in _SAME.items()},
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def _medians(boxes: int) -> dict[str, float]:
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="images-") as folder:
        backend = GVisorSandboxBackend(_UnpackedImages(Path(folder)))
        for number in range(boxes + 1):
            for name, values in _live(backend).items() if number else ():
                times[name] += values
    return {name: round(statistics.median(values), 3) for name, values in times.items()}


def _live(backend: GVisorSandboxBackend) -> dict[str, list[float]]:
    """Return the times of one sandbox's life by name."""
    folder = root_folder()
    config = RaySandboxConfig(
        str(folder), rootless=False, _oci_spec_transform_fn=_over(folder), _ignore_cgroups=True
    )
    before = {process.pid for process in psutil.process_iter()}
    name, start = _timed(lambda: backend.create_sandbox(config))
    shell = [_timed(lambda: backend.exec_command(name, ["true"])) for _ in range(_COMMANDS)]
    python = [_timed(lambda: backend.exec_command(name, [BOX_PYTHON, "-c", "1"])) for _ in range(_COMMANDS)]
    if failed := [result for result, _ in (*shell, *python) if result.exit_code != 0]:
        raise RuntimeError(f"a command failed: {failed[0]}")
    idle = memory_since(before)
    _, end = _timed(lambda: backend.delete_sandbox(name))
    return {
        "start": [start],
        "shell command": [each for _, each in shell],
        "Python command": [each for _, each in python],
        "idle MiB": [idle],
        "end": [end],
    }


def _over(folder: Path) -> Callable[[dict[str, object]], dict[str, object]]:
    """Return the change of a bundle that gives it the folder as its root."""

    def change(spec: dict[str, object]) -> dict[str, object]:
        spec["annotations"] = {}
        spec["root"] = {"path": str(folder), "readonly": True}
        return spec

    return change


def _timed(call: Callable[[], _T]) -> tuple[_T, float]:
    """Return a result, and the milliseconds that it took."""
    began = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
