"""The node's size, as its kernel and its container give it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_service.supervisor.node import measure_node

V2 = "0::/service.slice/boxes\n"
V1 = "5:memory:/docker/box\n4:cpu,cpuacct:/docker/box\n1:name=systemd:/\n"


def _kernel(folder: Path, groups: str = V2, **files: str) -> tuple[Path, Path]:
    """Return folders like /proc and /sys/fs/cgroup; ``files`` has "__" for each "/"."""
    proc, cgroups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:       16777216 kB\nMemFree: 1 kB\n")
    (proc / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        path = cgroups / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return proc, cgroups


def test_memory_is_the_machines_without_a_limit(tmp_path: Path) -> None:
    assert measure_node("process", *_kernel(tmp_path)).memory_mib == 16_384


@pytest.mark.parametrize("kind", ["process", "gvisor"])
@pytest.mark.parametrize(
    ("groups", "file"),
    [
        pytest.param("0::/\n", "memory.max", id="a container of version 2 has its own group at the root"),
        pytest.param(V2, "service.slice__boxes__memory.max", id="the own group of version 2"),
        pytest.param(V2, "service.slice__memory.max", id="the group above it"),
        pytest.param(V1, "memory__memory.limit_in_bytes", id="a container of version 1"),
        pytest.param(V1, "memory__docker__box__memory.limit_in_bytes", id="the own group of version 1"),
        pytest.param(V1, "memory__docker__memory.limit_in_bytes", id="the group above that"),
    ],
)
def test_a_groups_limit_wins_over_the_machines_memory(
    tmp_path: Path, kind: str, groups: str, file: str
) -> None:
    assert measure_node(kind, *_kernel(tmp_path, groups, **{file: "2147483648\n"})).memory_mib == 2048


def test_the_smallest_limit_on_the_way_up_wins(tmp_path: Path) -> None:
    files = {
        "service.slice__boxes__memory.max": "4294967296\n",
        "service.slice__memory.max": "1073741824\n",
        "memory.max": "2147483648\n",
    }
    assert measure_node("process", *_kernel(tmp_path, **files)).memory_mib == 1024


def test_limits_of_other_groups_bound_nothing(tmp_path: Path) -> None:
    files = {"other.slice__memory.max": "1\n", "other.slice__cpu.max": "1 100000\n"}
    kernel = _kernel(tmp_path, **files)
    assert measure_node("process", *kernel).memory_mib == 16_384
    assert measure_node("process", *kernel).cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        pytest.param("0::/\n", {"cpu.max": "50000 100000\n"}, id="a container of version 2"),
        pytest.param(
            V2, {"service.slice__boxes__cpu.max": "100000 100000\n"}, id="the own group of version 2"
        ),
        pytest.param(V2, {"service.slice__cpu.max": "50000 100000\n"}, id="the group above it"),
        pytest.param(
            V1,
            {"cpu__cpu.cfs_quota_us": "50000\n", "cpu__cpu.cfs_period_us": "100000\n"},
            id="a container of version 1",
        ),
        pytest.param(
            V1,
            {
                "cpu__docker__box__cpu.cfs_quota_us": "100000\n",
                "cpu__docker__box__cpu.cfs_period_us": "100000\n",
            },
            id="the own group of version 1",
        ),
    ],
)
def test_a_part_of_a_core_is_one_core(tmp_path: Path, groups: str, files: dict[str, str]) -> None:
    assert measure_node("process", *_kernel(tmp_path, groups, **files)).cores == 1


def test_more_cpu_time_than_the_process_has_cores_adds_none(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path, **{"cpu.max": "100000000 100000\n"})
    assert measure_node("process", *kernel).cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        pytest.param(V2, {"cpu.max": "max 100000\n", "memory.max": "max\n"}, id="version 2"),
        pytest.param(
            V1,
            {
                "cpu__cpu.cfs_quota_us": "-1\n",
                "cpu__cpu.cfs_period_us": "100000\n",
                "memory__memory.limit_in_bytes": "9223372036854771712\n",
            },
            id="version 1",
        ),
    ],
)
def test_an_unlimited_group_bounds_nothing(tmp_path: Path, groups: str, files: dict[str, str]) -> None:
    node = measure_node("process", *_kernel(tmp_path, groups, **files))
    assert node.cores == len(os.sched_getaffinity(0))
    assert node.memory_mib == 16_384


def test_boxes_of_an_engine_have_the_machine_whatever_bounds_the_service(tmp_path: Path) -> None:
    files = {"cpu.max": "50000 100000\n", "memory.max": "1073741824\n"}
    node = measure_node("docker", *_kernel(tmp_path, **files))
    assert node.cores == os.cpu_count()
    assert node.memory_mib == 16_384


def test_this_machine_has_cores_and_memory() -> None:
    node = measure_node("process")
    assert node.cores >= 1
    assert node.memory_mib >= 256
