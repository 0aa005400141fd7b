"""The comparison of AppWorld: its own package in a plain process, without the service.

Runs alone (``python -I -S plain_appworld.py PACKAGES DATA WORLDS``), without the product's code, and prints
JSON: seconds to import it, to open the first world and a later one, memory after the first two.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from time import CLOCK_MONOTONIC, clock_gettime


def main(packages: str, data: str, worlds: int) -> dict[str, object]:
    """Open worlds one after another in this process. AppWorld freezes time, so the clock is the kernel's."""
    sys.path.insert(0, packages)
    tasks = _tasks(Path(data))
    with tempfile.TemporaryDirectory(prefix="plain-appworld-") as root:
        (Path(root) / "data").symlink_to(data)
        os.environ["APPWORLD_ROOT"] = root
        os.environ["APPWORLD_CACHE"] = str(Path(root) / "cache")
        began = clock_gettime(CLOCK_MONOTONIC)
        from appworld import AppWorld

        import_s = clock_gettime(CLOCK_MONOTONIC) - began
        figures: dict[str, object] = {"import_s": import_s, "import_mb": _pss_mb()}
        opened: list[float] = []
        for number in range(worlds):
            began = clock_gettime(CLOCK_MONOTONIC)
            world = AppWorld(tasks[number % len(tasks)], experiment_name=f"world{number}")
            opened.append(clock_gettime(CLOCK_MONOTONIC) - began)
            if number == 0:
                figures |= {"first_world_s": opened[0], "first_world_mb": _pss_mb()}
            world.close()
    later = sorted(opened[1:])
    figures["later_world_s"] = later[len(later) // 2] if later else None
    return figures


def _tasks(data: Path) -> list[str]:
    return sorted(path.name for path in (data / "tasks").iterdir())


def _pss_mb() -> float:
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
