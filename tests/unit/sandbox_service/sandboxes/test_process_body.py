"""Bodies of process boxes: what starts, what is remembered of them, and what a sweep makes of it."""

import json
import os
import stat
import subprocess

import pytest

from local_processes.process_tree import process_of, started_ticks
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.process_body import ProcessBody, sweep_boxes
from sandbox_service.sandboxes.state import StateDir

OWN = range(1_900_000_000, 1_900_065_536)
"""Ids that no other process has."""


@pytest.fixture
def state(tmp_path):
    opened = StateDir.open(tmp_path, "n1")
    yield opened
    opened.close()


@pytest.fixture
def make(state):
    """Bodies around any command, with a list of the names of those that were removed."""
    removed = []

    def make_body(*command):
        name = f"process-{len(list(state.boxes.iterdir()))}"
        body = ProcessBody(state, name, [*command], None, SandboxLimits(), lambda: removed.append(name))
        return body, state.boxes / name

    make_body.removed = removed
    return make_body


async def test_a_body_runs_bounded_with_a_clean_environment(make):
    body, folder = make("sh", "-c", "env; ulimit -c; ulimit -f; pwd; exit 3")
    await body.start(5)
    assert await body.exit_reason() == "exit code 3: /"
    said = (folder / "runner.log").read_text().splitlines()
    assert not [
        line for line in said if "=" in line and not line.startswith(("PATH=", "PWD=", "_=", "SHLVL="))
    ]
    assert said[-3:-1] == ["0", str(512 * 2048)]
    await body.remove()
    assert not folder.exists()
    assert make.removed == [body.name]


async def test_what_runs_is_on_record(make):
    body, folder = make("sleep", "60")
    await body.start(5)
    record = json.loads((folder / "record.json").read_text())
    assert started_ticks(process_of(record["pid"])) == record["started"]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("record.json", "runner.log")} == {0o600}
    await body.remove()
    assert process_of(record["pid"]) is None


async def test_removing_what_was_never_started_is_fine(make):
    body, folder = make("true")
    await body.remove()
    assert not folder.exists()


async def test_a_program_that_is_not_there_says_so(make):
    body, _ = make("/nowhere/python3")
    await body.start(5)
    assert "not found" in await body.exit_reason()
    await body.remove()


async def test_a_folder_that_cannot_be_written_is_the_boxs_failure(make):
    body, folder = make("true")
    folder.mkdir()
    (folder / "workspaces").mkdir()
    with pytest.raises(ServiceError) as caught:
        await body.start(5)
    assert caught.value.code is ErrorCode.SANDBOX_FAILED
    await body.remove()
    assert not folder.exists()


def stray(state, name, **changes):
    process = subprocess.Popen(["sleep", "60"])
    folder = state.make_box_dir(name, many_users=False)
    record = {"pid": process.pid, "started": started_ticks(process_of(process.pid)), "uids": None, **changes}
    (folder / "record.json").write_text(json.dumps(record))
    return process


def test_a_sweep_ends_what_an_earlier_service_left_running(state):
    process = stray(state, "process-a")
    assert sweep_boxes(state.boxes, OWN) == 1
    assert process.wait() == -9
    assert list(state.boxes.iterdir()) == []


def test_a_sweep_spares_a_process_that_only_has_the_id_of_one(state):
    process = stray(state, "process-a", started=1)
    assert sweep_boxes(state.boxes, OWN) == 1
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.mark.parametrize("record", ["", "no json", "[]", '{"pid": 1}'])
def test_a_sweep_removes_a_box_whose_record_says_nothing(state, record, caplog):
    folder = state.make_box_dir("process-a", many_users=False)
    (folder / "record.json").write_text(record)
    assert sweep_boxes(state.boxes, OWN) == 1
    assert "box_record_unreadable" in caplog.text
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of other users need root")
@pytest.mark.parametrize("own", [True, False], ids=["of this node", "of another node"])
def test_a_sweep_ends_processes_by_their_user_id_only_where_the_ids_are_this_nodes(state, own):
    uids = range(OWN.start, OWN.start + 10)
    box = stray(state, "process-a", uids=[uids.start, uids.stop])
    daemon = subprocess.Popen(["sleep", "60"], user=uids.start)
    assert sweep_boxes(state.boxes, OWN if own else range(OWN.stop, OWN.stop + 10)) == 1
    assert box.wait() == -9
    assert (daemon.poll() is None) is not own
    daemon.kill()
    assert daemon.wait() == -9
