"""The folders of a process's control groups, in trees of files like the kernel's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_service.supervisor.control_groups import group_folders, own_groups, read_number

if TYPE_CHECKING:
    from pathlib import Path


def _folders(tmp_path: Path, lines: str, controller: str) -> list[str]:
    (tmp_path / "cgroup").write_text(lines)
    mount = tmp_path / "mount"
    return [str(each.relative_to(mount)) for each in group_folders(controller, mount, tmp_path)]


def test_the_own_group_comes_first_and_the_mounts_root_last(tmp_path: Path) -> None:
    assert _folders(tmp_path, "0::/a/b\n", "memory") == ["a/b", "a", "."]


def test_each_controller_has_a_hierarchy_of_its_own_in_version_1(tmp_path: Path) -> None:
    lines = "5:memory:/box\n4:cpu,cpuacct:/other\n1:name=systemd:/service\n"
    assert _folders(tmp_path, lines, "memory") == ["memory/box", "memory"]
    assert _folders(tmp_path, lines, "cpu") == ["cpu/other", "cpu"]


def test_a_process_without_control_groups_has_no_folders(tmp_path: Path) -> None:
    assert list(own_groups(tmp_path)) == []
    assert list(group_folders("cpu", tmp_path, tmp_path)) == []


@pytest.mark.parametrize(("text", "number"), [("4915\n", 4915), ("max\n", None), (None, None)])
def test_a_file_has_a_number_or_another_word(tmp_path: Path, text: str | None, number: int | None) -> None:
    if text is not None:
        (tmp_path / "pids.max").write_text(text)
    assert read_number(tmp_path / "pids.max") == number
