"""The configuration of a gVisor box, line by line."""

import json
import stat
from pathlib import Path

from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.hardening import BOX_DATA, BOX_PACKAGES, BOX_SOCKET_DIR
from sandbox_service.sandboxes.oci_bundle import CODE, BundleRequest, bundle_config, write_bundle

MIB = 1024 * 1024


def request(**changes):
    settings = {
        "root": Path("/cache/root"),
        "command": ("/bin/true",),
        "socket_dir": Path("/state/sockets/box"),
        "code": Path("/state/code/1"),
        "limits": SandboxLimits(),
    }
    return BundleRequest(**{**settings, **changes})


def mounts(**changes):
    return {each["destination"]: each for each in bundle_config(request(**changes))["mounts"]}


def test_a_box_has_three_capabilities_no_new_privileges_and_no_variables():
    process = bundle_config(request())["process"]
    assert set(process["capabilities"]) == {"bounding", "effective", "permitted"}
    assert all(each == ["CAP_KILL", "CAP_SETGID", "CAP_SETUID"] for each in process["capabilities"].values())
    assert process["noNewPrivileges"] is True
    assert process["env"] == []


def test_the_root_is_read_only_and_the_socket_the_only_folder_of_the_host_that_is_not():
    assert bundle_config(request())["root"] == {"path": "/cache/root", "readonly": True}
    of_the_host = {path: each["options"] for path, each in mounts().items() if each["type"] == "bind"}
    assert {path for path, options in of_the_host.items() if "rw" in options} == {BOX_SOCKET_DIR}
    assert set(of_the_host) == {BOX_SOCKET_DIR, CODE, "/dev/fuse"}


def test_devices_that_other_containers_do_not_have_are_covered():
    assert mounts()["/dev/fuse"]["source"] == "/dev/null"
    assert {"ro", "mode=700"} <= set(mounts()["/dev/net"]["options"])


def test_writable_folders_are_bounded():
    small = mounts(limits=SandboxLimits(workspace_mib=24))
    for path in ("/workspace", "/tmp", "/var/tmp"):
        assert small[path]["type"] == "tmpfs"
        assert "size=24m" in small[path]["options"]


def test_only_the_group_of_the_environment_enters_the_folder_of_packages_and_data():
    found = mounts(packages=Path("/e/packages"), data=Path("/e/data"))
    above = found["/opt/environment"]
    assert above["type"] == "tmpfs"
    assert {"mode=750", "gid=9999", "ro"} <= set(above["options"])
    assert found[BOX_PACKAGES]["source"] == "/e/packages"
    assert found[BOX_DATA]["source"] == "/e/data"
    # In the order of mounting: the folder above comes first.
    assert list(found).index("/opt/environment") < list(found).index(BOX_PACKAGES)


def test_a_control_group_bounds_memory_and_cpu_where_one_can_be_made():
    limits = SandboxLimits(memory_mib=256, cpus=0.5, pids=10)
    linux = bundle_config(request(limits=limits, cgroup="/training-sandbox/n/b"))["linux"]
    assert linux["cgroupsPath"] == "/training-sandbox/n/b"
    assert linux["resources"]["memory"]["limit"] > 256 * MIB
    assert linux["resources"]["cpu"] == {"quota": 50_000, "period": 100_000}
    assert "resources" not in bundle_config(request())["linux"]


def test_nobody_else_can_read_a_bundle(tmp_path):
    write_bundle(tmp_path / "b", request())
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700
    assert json.loads((tmp_path / "b" / "config.json").read_text()) == bundle_config(request())
