"""The parts of process boxes on this machine."""

import asyncio
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from local_processes.process_tree import process_of
from sandbox_service.environments.base import Provisions
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes import host, namespaces
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.content import runner_files
from sandbox_service.sandboxes.host import choose_interpreter, detect_host, reachable
from sandbox_service.sandboxes.namespaces import INSIDE, Enclosure, namespaces_work
from sandbox_service.sandboxes.state import StateDir
from tests.harness.waiting import until

LIMITS = SandboxLimits(workspace_mib=8, workspace_inodes=100)


@pytest.fixture
def state():
    folder = Path(tempfile.mkdtemp(prefix="host-"))
    folder.chmod(0o711)
    opened = StateDir.open(folder, "n1")
    yield opened
    opened.close()
    shutil.rmtree(folder)


def test_a_path_is_reachable_when_every_step_to_it_is(tmp_path):
    tmp_path.joinpath("open").mkdir(mode=0o755)
    tmp_path.joinpath("closed").mkdir(mode=0o700)
    assert not reachable(tmp_path / "closed")
    assert not reachable(tmp_path / "nowhere")
    assert reachable(Path("/usr/bin/env"))


def test_an_ordinary_user_keeps_its_interpreter_and_drops_no_user_ids(state, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert choose_interpreter(state.path) == (str(Path(sys.executable).resolve()), False)


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only")
def test_root_takes_an_interpreter_that_agents_can_reach(state):
    interpreter, drops_uids = choose_interpreter(state.path)
    assert drops_uids == reachable(Path(interpreter))


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only")
def test_in_a_folder_that_agents_cannot_reach_no_user_ids_are_dropped(state):
    state.path.chmod(0o700)
    assert choose_interpreter(state.path)[1] is False


async def test_looking_around_leaves_nothing_behind(state):
    code = state.lay_out("d", runner_files())
    found = await detect_host(state, code, LIMITS)
    assert "python" in found.interpreter
    assert (found.system_calls is not None) == found.protections()["filtered system calls"]
    assert list(state.boxes.iterdir()) == []


async def test_code_that_cannot_confine_itself_gets_no_filter(state):
    found = await detect_host(state, state.lay_out("d", {"a.py": b""}), LIMITS)
    assert found.protections()["filtered system calls"] is False
    assert found.protections()["own abstract sockets"] is False


async def test_without_the_tool_there_are_no_namespaces(state, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert await namespaces_work(enclosure(state.boxes, state.code), host.sys.executable) is False


async def test_an_interpreter_that_private_folders_would_hide_gets_none(state):
    assert await namespaces_work(enclosure(state.boxes, state.code), "/tmp/venv/bin/python3") is False


@pytest.mark.parametrize(("env_uid", "mode"), [(5000, "1777"), (None, "700")])
def test_the_command_in_namespaces_sees_its_box_and_bounded_folders(env_uid, mode):
    provisions = Provisions(Path("/cache/games"), "d1", Path("/srv/data"))
    inside = enclosure(Path("/state/boxes/b"), Path("/state/code/d"), provisions=provisions, env_uid=env_uid)
    command = inside.around(["/usr/bin/python3", "-I"])
    assert command[0] == "unshare"
    assert {"--pid", "--net", "--ipc", "--kill-child"} <= set(command)
    assert command[-2:] == ["/usr/bin/python3", "-I"]
    script = command[command.index("-c") + 1]
    assert "cd /state/code/d && mount -c --bind . /state/boxes/b/code" in script
    assert "cd /cache/games && mount -c --bind . /state/boxes/b/environment\n" in script
    assert "cd /srv/data && mount -c --bind . /state/boxes/b/environment/data" in script
    assert f"cd /state/boxes/b && mount -c --rbind . {INSIDE}" in script
    for path in ("/tmp", "/var/tmp", "/dev/shm", "/mnt/workspaces"):
        assert f"tmpfs {path}\n" in script
    assert script.count(f"nr_inodes=100,mode={mode}") == 4
    assert "hidepid" not in script


def test_a_box_covers_what_it_need_not_see_and_hides_the_processes_of_others():
    inside = enclosure(Path("/b"), Path("/c"), env_uid=5000, hidden=(Path("/srv/a b"),))
    script = inside.around(["/usr/bin/python3"])[-3]
    assert script.index("--rbind . /mnt") < script.index("tmpfs '/srv/a b'")
    assert "mount -o remount,hidepid=2,gid=5000 /proc" in script


def test_an_interpreter_below_a_cover_is_put_back():
    own = str(Path(sys.executable).resolve())
    prefix = Path(sys.base_prefix).resolve()
    script = enclosure(Path("/b"), Path("/c"), hidden=(prefix.parent,)).around([own])[-3]
    cover = re.search(rf"then mount -c -t tmpfs -o \S+ tmpfs {re.escape(str(prefix.parent))};", script)
    assert cover is not None
    assert cover.start() < script.index(f"cd /mnt/python && mount -c --rbind . {prefix}")


def test_each_instance_has_folders_bounded_like_those_of_a_container():
    private_folders = enclosure(Path("/b"), Path("/c"), env_uid=5000).private_folders(LIMITS)
    assert set(private_folders) == {"/mnt/workspaces", "/tmp", "/var/tmp", "/dev/shm"}
    assert all("size=8m,nr_inodes=100,mode=1777" in options for options in private_folders.values())


def enclosure(box, code, provisions=None, env_uid=None, hidden=None):
    return Enclosure(box, code, provisions, LIMITS, env_uid, hidden)


class Endless:
    """The namespaces of a box that never comes to its end."""

    def __init__(self, pid_file):
        self._pid_file = pid_file

    def around(self, command):
        return ["sh", "-c", f"echo $$ > {self._pid_file}; exec sleep 600"]


async def test_a_probe_that_takes_too_long_says_nothing_about_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(namespaces, "PROBE_S", 0.1)
    with pytest.raises(ServiceError, match="did not end within"):
        await namespaces_work(Endless(tmp_path / "pid"), "/usr/bin/python3")


async def test_a_probe_that_is_cancelled_ends_its_child(tmp_path):
    pid_file = tmp_path / "pid"
    probe = asyncio.create_task(namespaces_work(Endless(pid_file), "/usr/bin/python3"))
    await until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert process_of(int(pid_file.read_text())) is None
