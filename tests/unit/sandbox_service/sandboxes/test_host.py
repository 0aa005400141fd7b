"""What process boxes are made of on this machine."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from sandbox_service.environments.base import Provisions
from sandbox_service.sandboxes import host
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.host import choose_interpreter, look_around, reachable
from sandbox_service.sandboxes.namespaces import INSIDE, namespaces_work, wrapped
from sandbox_service.sandboxes.state import StateDir

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


async def test_what_a_process_box_is_not_is_said(state, caplog):
    code = state.lay_out("d", {"a.py": b""})
    found = await look_around(state, code, LIMITS)
    assert "python" in found.interpreter
    assert "no security boundary" in caplog.text
    assert list(state.boxes.iterdir()) == []


async def test_without_the_tool_there_are_no_namespaces(state, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert await namespaces_work(state.boxes, state.code, LIMITS, host.sys.executable) is False


async def test_an_interpreter_that_private_folders_would_hide_gets_none(state):
    assert await namespaces_work(state.boxes, state.code, LIMITS, "/tmp/venv/bin/python3") is False


@pytest.mark.parametrize(("many_users", "mode"), [(True, "1777"), (False, "700")])
def test_the_command_in_namespaces_sees_its_box_and_bounded_folders(many_users, mode):
    provisions = Provisions(Path("/cache/games"), "d1", Path("/srv/data"))
    box, code = Path("/state/boxes/b"), Path("/state/code/d")
    command = wrapped(box, code, provisions, LIMITS, many_users, ["python3", "-I"])
    assert command[0] == "unshare"
    assert {"--pid", "--net", "--ipc", "--kill-child"} <= set(command)
    assert command[-6:-4] == ["/state/boxes/b", "/state/code/d"]
    assert command[-4:] == ["/cache/games", "/srv/data", "python3", "-I"]
    script = command[command.index("-c") + 1]
    assert f"mount -c --rbind . {INSIDE}" in script
    for path in ("/tmp", "/var/tmp", "/dev/shm", "/mnt/workspaces"):
        assert f"tmpfs {path}\n" in script
    assert script.count(f"nr_inodes=100,mode={mode}") == 4
