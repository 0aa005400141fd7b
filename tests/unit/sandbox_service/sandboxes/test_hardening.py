"""The hardening profile, line by line."""

import json

import pytest

from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.hardening import (
    BOX_SOCKET_DIR,
    ContainerRequest,
    container_config,
)
from sandbox_service.sandboxes.seccomp import seccomp_profile

MIB = 1024 * 1024


def config(**changes):
    settings = {
        "image": "sandbox-code:echo-1",
        "command": ("-I", "-c", "pass"),
        "socket_dir": "/state/sockets/box",
        "labels": {"sandbox-service.node": "node1"},
        "limits": SandboxLimits(),
    }
    return container_config(ContainerRequest(**{**settings, **changes}))


def host(**changes):
    return config(**changes)["HostConfig"]


def test_a_box_has_no_network_and_nobody_elses_namespaces():
    found = host()
    assert found["NetworkMode"] == "none"
    assert found["IpcMode"] == "private"
    assert found["CgroupnsMode"] == "private"
    assert found["PidMode"] == found["UTSMode"] == ""
    assert found["Privileged"] is False


def test_all_capabilities_go_but_the_runners_three():
    assert host()["CapDrop"] == ["ALL"]
    assert host()["CapAdd"] == ["KILL", "SETGID", "SETUID"]


def test_no_new_privileges_and_our_own_seccomp_profile():
    options = host()["SecurityOpt"]
    assert options[0] == "no-new-privileges"
    assert options[1] == f"seccomp={seccomp_profile()}"
    assert len(options) == 2


def test_the_root_is_read_only_and_only_four_bounded_tmpfs_can_be_written():
    found = host(limits=SandboxLimits(workspace_mib=48, workspace_inodes=1000))
    assert found["ReadonlyRootfs"] is True
    assert set(found["Tmpfs"]) == {"/workspace", "/tmp", "/var/tmp", "/dev/shm"}
    for path, options in found["Tmpfs"].items():
        words = options.split(",")
        size = "size=16m" if path == "/dev/shm" else "size=48m"
        assert {"rw", "nosuid", "nodev", size, "nr_inodes=1000", "mode=1777"} <= set(words)


def test_the_private_folder_is_the_only_thing_of_the_host():
    (mount,) = host()["Mounts"]
    assert (mount["Type"], mount["Source"], mount["Target"]) == ("bind", "/state/sockets/box", BOX_SOCKET_DIR)
    assert "Binds" not in host()
    assert "Devices" not in host()


def test_memory_includes_swap_and_everything_else_is_bounded():
    found = host(limits=SandboxLimits(memory_mib=256, cpus=0.5, pids=40, open_files=100, workspace_mib=8))
    assert found["Memory"] == found["MemorySwap"] == 256 * MIB
    assert found["NanoCpus"] == 500_000_000
    assert found["PidsLimit"] == 40
    bounds = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in found["Ulimits"]}
    assert bounds["nofile"] == (100, 100)
    assert bounds["fsize"] == (256 * MIB, 256 * MIB), "agents have a bound of their own"
    assert bounds["core"] == bounds["msgqueue"] == (0, 0)


def test_nothing_is_logged_and_nothing_restarts():
    assert host()["LogConfig"] == {"Type": "none"}
    assert host()["RestartPolicy"] == {"Name": "no"}
    assert host()["Init"] is False


def test_the_environment_is_empty_and_stays_so():
    found = config()
    assert found["Env"] == []
    assert found["Entrypoint"][:2] == ["/usr/bin/env", "-i"]
    assert found["Hostname"] == "sandbox"


def test_what_leaks_about_the_host_is_masked_on_top_of_the_engines_own_list():
    masked = set(host()["MaskedPaths"])
    engines_own = {
        "/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
        "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
        "/sys/devices/virtual/powercap",
    }  # fmt: skip
    assert engines_own <= masked
    assert {"/dev/mqueue", "/proc/kallsyms", "/proc/cmdline", "/sys/kernel"} <= masked
    protected = masked | set(host()["ReadonlyPaths"])
    assert {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"} <= protected


@pytest.mark.parametrize("runtime", ["runsc", "crun"])
def test_the_runtime_is_a_setting(runtime):
    assert host(runtime=runtime)["Runtime"] == runtime
    assert "Runtime" not in host()


def test_a_socket_folder_of_an_ordinary_user_is_reached_by_group():
    assert host(socket_group=998)["GroupAdd"] == ["998"]
    assert "GroupAdd" not in host()


def test_the_request_is_plain_json():
    assert json.loads(json.dumps(config())) == config()


def test_in_gvisor_the_bounds_of_the_host_leave_room_for_gvisor_itself():
    bounds, plain = host(gvisor=True), host()
    assert bounds["Memory"] == bounds["MemorySwap"] > plain["Memory"]
    assert bounds["PidsLimit"] > plain["PidsLimit"]


def test_devices_that_gvisor_makes_for_all_boxes_are_covered():
    found = host(gvisor=True)
    assert "mode=700" in found["Tmpfs"]["/dev/net"]
    assert [(each["Source"], each["Target"]) for each in found["Mounts"][1:]] == [("/dev/null", "/dev/fuse")]
    assert "/dev/net" not in host()["Tmpfs"]
