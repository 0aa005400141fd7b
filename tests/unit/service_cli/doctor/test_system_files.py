import os
from pathlib import Path

import pytest

from service_cli.doctor import system_files
from service_cli.doctor.clock_facts import WallClock


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_unified_hierarchy_of_control_groups_is_version_2(tmp_path) -> None:
    cgroups = write(tmp_path / "cgroups", cgroup_DOT_controllers="cpu memory pids\n")
    facts = system_files.kernel(tmp_path, cgroups, tmp_path)
    assert (facts.cgroup_version, facts.controllers) == (2, {"cpu", "memory", "pids"})


def test_the_former_hierarchies_are_version_1(tmp_path) -> None:
    proc = write(tmp_path / "proc", cgroup="9:pids:/box\n4:cpu,cpuacct:/\n1:name=systemd:/\n")
    facts = system_files.kernel(tmp_path, tmp_path, proc)
    assert facts.cgroup_version == 1
    assert {"pids", "cpu", "cpuacct"} <= facts.controllers


def test_a_machine_without_control_groups_has_version_0(tmp_path) -> None:
    assert system_files.kernel(tmp_path, tmp_path, tmp_path).cgroup_version == 0


def test_switches_of_distributions_refuse_user_namespaces(tmp_path) -> None:
    debian = write(tmp_path / "debian", kernel__unprivileged_userns_clone="0\n")
    ubuntu = write(tmp_path / "ubuntu", kernel__apparmor_restrict_unprivileged_userns="1\n")
    plain = write(tmp_path / "plain", user__max_user_namespaces="15000\n")
    assert not system_files.kernel(debian).unprivileged_namespaces
    assert not system_files.kernel(ubuntu).unprivileged_namespaces
    assert system_files.kernel(plain).unprivileged_namespaces
    assert system_files.kernel(plain).user_namespaces == 15_000


def test_the_bound_on_processes_is_the_smallest_on_the_way_up(tmp_path) -> None:
    sysctl = write(tmp_path / "sysctl", kernel__pid_max="4194304")
    proc = write(tmp_path / "proc", cgroup="0::/system.slice/service\n")
    cgroups = write(
        tmp_path / "cgroups",
        **{"system.slice__pids.max": "4915\n", "system.slice__service__pids.max": "max\n"},
    )
    assert system_files.limits(sysctl, cgroups, proc).cgroup_pids == 4_915


def test_a_namespace_of_few_user_ids_lacks_those_of_boxes(tmp_path) -> None:
    everything = write(tmp_path / "host", uid_map="         0          0 4294967295\n")
    few = write(tmp_path / "container", uid_map="         0     100000      65536\n")
    assert system_files.user(everything).mapped
    assert not system_files.user(few).mapped


def test_a_folder_that_does_not_exist_is_on_the_disk_of_the_one_above(tmp_path) -> None:
    facts = system_files.disk(tmp_path / "not" / "there")
    assert facts.writable
    assert facts.free_mib > 0
    assert os.path.ismount(facts.mount)


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_is_no_folder_that_can_be_written_to(tmp_path, path) -> None:
    (tmp_path / "file").touch(mode=0o777)
    assert not system_files.disk(tmp_path / path).writable


def test_ports_of_outgoing_connections_include_the_last(tmp_path) -> None:
    sysctl = write(tmp_path, net__ipv4__ip_local_port_range="32768\t60999\n")
    assert system_files.ephemeral_ports(sysctl) == range(32_768, 61_000)


def test_the_clock_of_this_machine_runs_with_the_monotonic_one() -> None:
    assert abs(WallClock().facts().jumped_s) < 1.0


def test_a_folder_that_is_there_can_be_listed(tmp_path) -> None:
    (tmp_path / "file").touch()
    assert system_files.can_list(tmp_path)
    assert not system_files.can_list(tmp_path / "file")
    assert not system_files.can_list(tmp_path / "none")
