"""Hostile code in a hardened container: what it must not reach, whatever it tries.

The numbers in brackets are those of the list of attacks in the security documentation.
"""

import asyncio
import contextlib
import json
import secrets
import shutil
import tempfile
from pathlib import Path

import docker
import pytest

from sandbox_service.config import LimitsConfig, SandboxConfig
from sandbox_service.sandboxes.factory import open_factory
from tests.harness.boxes import PROBE, episode, need_engine

pytestmark = pytest.mark.docker

LIMITS = LimitsConfig(memory_mib=256, pids=64, workspace_mib=24, workspace_inodes=500)
ATTACKS = (Path(__file__).parent / "box_attacks.py").read_text()
DENIED = {"EPERM", "EACCES", "ENOSYS"}


async def in_a_box(actions):
    """Run something with an episode in a fresh box; what it gives."""
    state_dir = Path(tempfile.mkdtemp(prefix="abuse-"))
    config = SandboxConfig(kind="docker", state_dir=state_dir, limits=LIMITS)
    factory = await open_factory(config, f"abuse{secrets.token_hex(4)}")
    try:
        box = await factory.start(PROBE, lambda _: None, lambda _: None)
        try:
            return await actions(await episode(box), factory)
        finally:
            await box.destroy()
    finally:
        await factory.close()
        shutil.rmtree(state_dir)


@pytest.fixture(scope="module")
def report():
    """Return the report of the attacks from one box, which lives on after them."""
    need_engine()

    async def attack(one, _):
        execution = await one.run(python=ATTACKS)
        assert (await one.run(shell="echo alive"))["output"] == "alive\n"
        assert execution["exit_code"] == 0, execution["output"]
        return json.loads(execution["output"])

    return asyncio.run(in_a_box(attack))


@pytest.fixture(scope="module")
def container():
    """Return a started box as the engine itself describes it."""
    need_engine()

    async def inspect(one, _):
        with contextlib.closing(docker.from_env()) as engine:
            return await asyncio.to_thread(engine.api.inspect_container, one.box.sandbox_id)

    return asyncio.run(in_a_box(inspect))


def test_no_dangerous_system_call_is_allowed(report):
    """[I1, I2, V1-V3]"""
    allowed = {name: found for name, found in report["syscalls"].items() if found not in ("EPERM", "ENOSYS")}
    assert allowed == {}
    assert len(report["syscalls"]) > 50


def test_the_c_library_and_event_loops_are_told_to_take_another_way(report):
    assert report["syscalls"]["clone3"] == "ENOSYS"
    assert report["syscalls"]["io_uring_setup"] == "ENOSYS"


def test_only_unix_and_internet_sockets_can_be_made(report):
    """[I3]"""
    assert report["sockets"]["families"] == [1, 2, 10]
    for kind in ("raw", "ping", "sctp", "sctp_by_type", "udplite", "mptcp"):
        assert report["sockets"][kind] == "EPERM"


def test_there_is_nobody_on_the_network(report):
    """[N1]"""
    assert report["network"]["interfaces"] == ["lo"]
    for target in ("bridge", "metadata", "dns", "v6"):
        assert report["network"][target] in ("ENETUNREACH", "EADDRNOTAVAIL")


def test_devices_are_the_harmless_ones_and_no_other_can_be_made(report):
    """[I4]"""
    harmless = {
        "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout",
        "tty", "urandom", "zero",
    }  # fmt: skip
    assert set(report["devices"]["listed"]) <= harmless
    for kind in ("memory", "disk", "kmsg"):
        assert report["devices"][kind] == "EPERM"
    assert report["devices"]["fifo"] == "ok"
    assert report["devices"]["terminal"] == "ENXIO"


def test_no_file_of_the_image_gives_privileges(report):
    """[I5]"""
    assert report["files"]["privileged"] == []
    assert report["identity"]["no_new_privileges"] == "1"
    assert report["identity"]["seccomp"] == "2"


def test_an_agent_has_its_own_user_no_group_and_no_capability(report):
    found = report["identity"]
    assert found["uid"] >= 1_000_000_000
    assert found["groups"] in ([], [found["uid"]])
    assert set(found["capabilities"].values()) == {0}
    for change in ("setuid", "setgid", "setgroups", "nice", "real_time", "open_files", "core"):
        assert found[change] in DENIED, change


def test_the_environment_holds_nothing_of_ours_and_no_descriptor_is_inherited(report):
    found = report["identity"]
    assert set(found["environment"]) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR", "USER"}
    assert found["hostname"] == "sandbox"
    # Standard streams, the session's control socket, and the listing's own.
    assert len(found["descriptors"]) <= 5


def test_no_path_but_the_four_writable_ones_can_be_written(report):
    """[R8]"""
    own = {"/tmp", "/var/tmp", "/dev/shm", "/workspace"}
    assert {path for path in report["files"]["written"] if not path.startswith("/tmp/")} <= own


def test_no_kernel_setting_can_be_changed(report):
    """[I6, R8]"""
    found = report["kernel_files"]
    assert found["taken"] == []
    assert found["release_agent"] == []
    assert found["core_pattern"] in {"EROFS", "EACCES", "EPERM", "ENOENT"}
    assert found["sysrq"] != "ok" or found["secrets"]["/proc/cmdline"] == 0


def test_no_socket_of_the_host_is_there_and_nothing_of_the_kernel_leaks(report):
    """[I6, I7]"""
    assert report["kernel_files"]["sockets"] == []
    assert set(report["kernel_files"]["secrets"].values()) == {0}


def test_no_other_process_can_be_looked_into_signalled_or_slowed(report):
    """[I7, I8, P4]"""
    assert "1" in report["neighbours"]
    assert len(report["neighbours"]) < 20
    for pid, found in report["neighbours"].items():
        for deed, answer in found.items():
            assert answer in DENIED | {"ESRCH", "ENOENT"}, (pid, deed)


def test_the_runners_socket_is_out_of_reach(report):
    """[P2]"""
    for deed, answer in report["private_folder"].items():
        assert answer in {"EACCES", "EPERM", "EROFS", "EBUSY", "EXDEV"}, deed


def test_no_catalog_and_no_answers_are_in_the_image(report):
    """[G1]"""
    assert report["files"]["truths"] == []


def test_the_box_lives_on_after_its_agent_tried_to_kill_it(report):
    """[P4]"""
    assert report["everyone_at_once"] == "alive"


@pytest.mark.parametrize("place", [".", "/tmp", "/var/tmp", "/dev/shm"])
def test_a_full_disk_is_the_agents_own(place):
    """[R5]"""
    need_engine()
    fill = (
        "import errno, os\n"
        "total, error = 0, None\n"
        "try:\n"
        f"    for number in range(64):\n"
        f"        with open('{place}/fill-' + str(number), 'wb', buffering=0) as file:\n"
        "            total += file.write(bytes(1 << 20))\n"
        "except OSError as caught:\n"
        "    error = errno.errorcode[caught.errno]\n"
        "print(total >> 20, error)"
    )

    async def attack(one, _):
        return await one.python(fill)

    written, error = asyncio.run(in_a_box(attack)).split()
    assert int(written) <= 24
    assert error == "ENOSPC" or int(written) < 64


def test_a_million_empty_files_end_at_the_inode_limit():
    """[R6]"""
    need_engine()
    create = (
        "import errno\n"
        "for number in range(1_000_000):\n"
        "    try:\n"
        "        open(f'/tmp/{number}', 'w').close()\n"
        "    except OSError as error:\n"
        "        print(number, errno.errorcode[error.errno])\n"
        "        break"
    )

    async def attack(one, _):
        return await one.python(create)

    number, error = asyncio.run(in_a_box(attack)).split()
    assert error == "ENOSPC"
    assert int(number) < 500


@pytest.mark.parametrize(
    "command",
    [
        "head -c 100000000 /dev/zero",
        "head -c 3000000 /dev/urandom",
        "yes | head -c 50000000",
        "yes | head -c 20000000 1>&2",
    ],
    ids=["nul", "random", "lines", "stderr"],
)
def test_a_flood_of_output_is_cut_and_said_to_be(command):
    """[R9]"""
    need_engine()

    async def attack(one, _):
        flood = await one.run(shell=command, timeout=20)
        assert (await one.run(shell="echo alive"))["output"] == "alive\n"
        return flood

    flood = asyncio.run(in_a_box(attack))
    assert flood["truncated"] is True
    assert len(flood["output"]) <= 65536 * 2


def test_the_engine_runs_the_box_as_it_was_told(container):
    host = container["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert sorted(cap.removeprefix("CAP_") for cap in host["CapAdd"]) == ["KILL", "SETGID", "SETUID"]
    assert host["LogConfig"]["Type"] == "none"
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert host["PidsLimit"] == 64
    assert container["Config"]["Env"] is None or not [
        variable
        for variable in container["Config"]["Env"]
        if not variable.startswith(("PATH=", "LANG=", "PYTHON", "GPG_KEY="))
    ]
    assert [mount["Destination"] for mount in container["Mounts"] if mount["Type"] == "bind"] == [
        "/run/sandbox"
    ]
