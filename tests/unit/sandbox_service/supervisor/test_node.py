"""The node's size, as its kernel and its container give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.supervisor.node import measure_node

if TYPE_CHECKING:
    from pathlib import Path


def _kernel(folder: Path, limit: str | None = None, file: str = "memory.max") -> tuple[Path, Path]:
    proc, cgroups = folder / "proc", folder / "cgroup"
    proc.mkdir()
    (proc / "meminfo").write_text("MemTotal:       16777216 kB\nMemFree: 1 kB\n")
    (cgroups / file).parent.mkdir(parents=True)
    if limit is not None:
        (cgroups / file).write_text(limit)
    return proc, cgroups


def test_memory_is_the_machines_without_a_limit(tmp_path: Path) -> None:
    assert measure_node(*_kernel(tmp_path)).memory_mib == 16_384


def test_a_containers_limit_wins_over_the_machines_memory(tmp_path: Path) -> None:
    assert measure_node(*_kernel(tmp_path, "2147483648\n")).memory_mib == 2048


def test_limits_of_older_control_groups_are_seen(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path, "1073741824\n", "memory/memory.limit_in_bytes")
    assert measure_node(*kernel).memory_mib == 1024


def test_an_unlimited_group_bounds_nothing(tmp_path: Path) -> None:
    assert measure_node(*_kernel(tmp_path, "max\n")).memory_mib == 16_384


def test_this_machine_has_cores_and_memory() -> None:
    node = measure_node()
    assert node.cores >= 1
    assert node.memory_mib >= 256
