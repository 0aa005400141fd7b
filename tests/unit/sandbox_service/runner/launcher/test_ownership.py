"""Remains of instances, and the proof that a box is clean."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.kernel.killing import signal_uid
from sandbox_service.wire.frames import Frame, Op
from tests.harness.runner_box import error_code, is_alive, runner_box, uid_drop_missing

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox

TRACES = """
import os, pathlib, subprocess, socket, sys
scratch = pathlib.Path(SCRATCH)
for folder in (pathlib.Path('.'), scratch):
    (folder / 'plain').write_text('x')
    (folder / '.hidden').write_text('x')
    os.symlink('/etc/passwd', folder / 'link')
    os.link(folder / 'plain', folder / 'hard')
    os.mkfifo(folder / 'fifo')
    listening = socket.socket(socket.AF_UNIX); listening.bind(str(folder / 'sock'))
    (folder / 'locked' / 'deeper').mkdir(parents=True)
    (folder / 'locked' / 'deeper' / 'f').write_text('x')
    os.chmod(folder / 'locked' / 'deeper', 0)
    os.chmod(folder / 'locked', 0)
    name = os.fsencode(folder) + b'/\\xff\\xfe bad \\n name'
    os.mkdir(name)
here = os.getcwd()
for start in (here, str(scratch)):
    os.chdir(start)
    for _ in range(300):
        os.mkdir('nested'); os.chdir('nested')
    open('bottom', 'w').close()
os.chdir(here)
subprocess.Popen(['sleep', '1000'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time
        while True: time.sleep(60)
    os._exit(0)
"""


def traces(box: RunnerBox) -> str:
    return TRACES.replace("SCRATCH", repr(box.config["scratch"][0]))


def plant(box: RunnerBox, name: str) -> None:
    box.create(name)
    assert box.act(name, do="python", code=traces(box))["output"] == ""
    box.act(name, do="candidate", entry="tests.fakes.agent_world:double")
    ran = box.act(name, do="request", message={"run": "open('by-the-candidate', 'w').write('x')"})
    assert ran["value"] == {"result": "1"}


def entries(box: RunnerBox) -> list[str]:
    """Everything below the box's writable directories, seen as root."""
    roots = [box.config["workspace_root"], *box.config["scratch"]]
    return [str(path) for root in roots for path in Path(root).iterdir()]


def test_a_reset_finds_every_trace_and_leaves_none(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        before = {process["pid"] for process in box.processes()}
        plant(box, "a")
        plant_pids = {process["pid"] for process in box.processes()} - before
        assert len(plant_pids) >= 4
        assert entries(box)
        assert box.reset().meta == {"clean": True, "left": []}
        assert entries(box) == []
        assert not [pid for pid in plant_pids if is_alive(pid)]
        assert {process["pid"] for process in box.processes()} == before


def test_the_release_of_the_last_instance_cleans_the_box_when_asked_to(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        before = {process["pid"] for process in box.processes()}
        box.create("a")
        box.act("a", do="write", path="f", text="x")
        plant(box, "b")
        assert "reset" not in box.release_last("a")
        assert box.release_last("b") == {"clean": True, "reset": True}
        assert entries(box) == []
        assert {process["pid"] for process in box.processes()} == before
        assert box.create("c").op is Op.REPLY
        box.act("c", do="shell", command="true")
        assert box.release_last("c") == {"clean": True, "reset": True}


def test_copies_and_what_they_share_go_with_the_last_of_them(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        before = {process["pid"] for process in box.processes()}
        box.create("source")
        box.act("source", do="python", code="open('f', 'w').write('x')")
        assert box.request(Op.FORK, "source", meta={"copy_id": "copy"}).op is Op.REPLY
        box.act("copy", do="python", code="import subprocess; subprocess.Popen(['sleep', '1000'])")
        assert "reset" not in box.release_last("source")
        assert box.release_last("copy") == {"clean": True, "reset": True}
        assert entries(box) == []
        assert {process["pid"] for process in box.processes()} == before


def test_a_box_that_is_cleaned_with_its_last_instance_takes_no_other_before() -> None:
    with runner_box("tests.fakes.agent_world", agent_code=True) as box:
        box.create("a")
        # In one piece, so that the create is read before the release is through.
        meta = {"deadline_s": 20, "seed": 1, "max_steps": 9}
        leaving = Frame(Op.RELEASE, 1001, "a", {"reset": True})
        early = Frame(Op.CREATE, 1002, "b", meta, b'{"environment": "e", "task_id": "t", "task": {}}')
        box.socket.sendall(leaving.encode() + early.encode())
        assert error_code(box.answer(1002)) == "sandbox_failed"
        assert box.answer(1001).meta == {"clean": True, "reset": True}
        assert box.create("b").op is Op.REPLY


def test_a_release_that_leaves_something_says_so_although_it_was_the_last() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True) as box:
        scratch = Path(box.config["scratch"][0])
        inner = scratch / "of-root"
        inner.mkdir()
        (inner / "left").write_text("x")
        os.chown(inner / "left", box.config["uid_base"] + 2, -1)
        box.create("a")
        box.act("a", do="shell", command="true")
        assert box.release_last("a") == {"clean": False, "reset": True}


def test_a_release_cleans_what_belongs_to_the_instance(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        box.create("neighbour")
        box.act("neighbour", do="write", path="kept", text="here")
        before = {process["pid"] for process in box.processes()}
        plant(box, "a")
        assert box.release("a")
        assert {process["pid"] for process in box.processes()} <= before
        workspace = box.act("neighbour", do="workspace")["workspace"]
        if drop:
            # The owner tells whose a file in a shared place is; without, only a reset empties it.
            assert entries(box) == [workspace]
        left = {path.name for path in Path(box.config["workspace_root"]).iterdir()}
        assert left <= {Path(workspace).name, Path(workspace).name + ".tmp"}
        assert box.act("neighbour", do="read", path="kept")["value"] == "here"


def test_neighbours_are_served_while_an_instance_is_cleaned_up() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True) as box:
        scratch = box.config["scratch"][0]
        for name in ("messy", "neighbour"):
            box.create(name)
        box.act("neighbour", do="write", path="kept", text="here")
        litter = f"import os\nfor i in range(40_000): os.mknod(f'{scratch}/' + str(i))"
        assert box.act("messy", do="python", code=litter)["output"] == ""
        with os.scandir(scratch) as files:
            first = Path(next(files).path)
        release = box.send(Op.RELEASE, "messy")
        while first.exists():
            time.sleep(0.0005)
        body = {"message": {"role": "assistant", "content": '{"do": "read", "path": "kept"}'}}
        read = box.send(Op.STEP, "neighbour", meta={"deadline_s": 20}, body=body)
        answered = [box.receive().request_id for _ in range(2)]
        assert answered == [read, release]
        assert list(Path(scratch).iterdir()) == []


def test_what_lay_there_before_is_not_a_trace(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        scratch = Path(box.config["scratch"][0])
        box.create("a")
        assert box.reset().meta["clean"]
        if drop:
            (scratch / "of-the-host").write_text("x")
            assert box.reset().meta == {"clean": True, "left": []}
            assert (scratch / "of-the-host").exists()


def test_a_directory_that_others_can_write_is_never_emptied_without_user_ids(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "of-somebody").write_text("x")
    with runner_box("tests.fakes.agent_world", agent_code=True, scratch=[str(shared)]) as box:
        box.create("a")
        reply = box.reset()
        assert reply.meta["clean"] is False
        assert reply.meta["left"] == [f"{shared} is not private to the box"]
    assert (shared / "of-somebody").exists()


def test_files_of_the_environment_in_shared_places_are_removed_by_a_reset() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True) as box:
        scratch = Path(box.config["scratch"][0])
        box.create("a")
        # By now the launcher has noted what was there before: it takes messages in order.
        box.act("a", do="shell", command="true")
        litter = scratch / "by-the-world"
        litter.write_text("x")
        os.chown(litter, box.config["env_uid"], box.config["env_uid"])
        assert box.reset().meta == {"clean": True, "left": []}
        assert not litter.exists()


def test_what_cannot_be_removed_is_named() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True) as box:
        scratch = Path(box.config["scratch"][0])
        inner = scratch / "of-root"
        inner.mkdir()
        left = inner / "left"
        left.write_text("x")
        os.chown(left, box.config["uid_base"] + 2, -1)
        box.create("a")
        box.act("a", do="shell", command="true")
        assert not box.release("a")
        assert box.reset().meta == {"clean": False, "left": [str(left)]}


@pytest.mark.parametrize("uid", [0, os.getuid()])
def test_nobody_is_ended_by_the_user_id_of_root_or_of_ourselves(uid: int) -> None:
    with pytest.raises(ValueError, match="not an instance's"):
        signal_uid(uid, 12345, 0)


def test_long_names_of_what_is_left_do_not_end_the_box() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True) as box:
        deep = Path(box.config["scratch"][0], *["\N{LATIN SMALL LETTER E WITH ACUTE}" * 120] * 12)
        deep.mkdir(parents=True)
        for number in range(30):
            left = deep / str(number)
            left.write_text("x")
            os.chown(left, box.config["uid_base"] + 2, -1)
        for name in ("a", "neighbour"):
            box.create(name)
            box.act(name, do="shell", command="true")
        assert not box.release("a")
        assert box.act("neighbour", do="shell", command="echo here")["output"] == "here\n"
        assert not box.reset().meta["clean"]


def test_an_instance_cannot_take_the_place_of_the_next_ones_workspace() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True) as box:
        box.create("a")
        box.act("a", do="shell", command="mkdir -m 777 ../2; ln -s /etc ../3")
        for name in ("b", "c"):
            box.create(name)
            assert box.act(name, do="write", path="f", text="x")["raised"] == "PermissionError"
            assert box.act(name, do="shell", command="true")["exit_code"] == 125
        for name in ("b", "c", "a"):
            box.release(name)
        assert box.reset().meta == {"clean": True, "left": []}
