"""Folders that an instance has to itself."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.kernel.mount_namespace import MountNamespace
from tests.harness.runner_box import runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOUNDS = "rw,nosuid,nodev,exec,size=4m,nr_inodes=50,mode=1777"


def in_child(action: Callable[[], str]) -> str:
    """Return the result of an action in a forked child, which has one thread."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, action().encode())
        except BaseException as error:  # noqa: BLE001 - the test compares what is said
            os.write(writing, f"{type(error).__name__} {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def namespace() -> str:
    return str(Path("/proc/self/ns/mnt").readlink())


@pytest.fixture
def room() -> Iterator[Path]:
    """A folder on this machine with one file in it."""
    if os.geteuid() != 0:
        pytest.skip("needs the right to mount")
    with tempfile.TemporaryDirectory(prefix="room-") as name:
        Path(name, "of-the-host").touch()
        yield Path(name)


def create(room: Path) -> MountNamespace:
    try:
        return MountNamespace.create({str(room): BOUNDS})
    except PermissionError:
        os._exit(77)


def test_what_is_written_inside_is_not_seen_outside(room: Path) -> None:
    def action() -> str:
        quarters = create(room)
        outside = names(room)
        quarters.enter()
        inside = names(room)
        (room / "own").touch()
        return f"{outside} {inside}"

    assert in_child(action) == "['of-the-host'] []"
    assert names(room) == ["of-the-host"]


def test_quarters_are_bounded(room: Path) -> None:
    def action() -> str:
        create(room).enter()
        try:
            for number in range(100):
                (room / str(number)).touch()
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "all"

    assert in_child(action) == "ENOSPC"


def test_two_quarters_share_nothing(room: Path) -> None:
    def action() -> str:
        one, two = create(room), create(room)
        one.enter()
        (room / "of-one").touch()
        two.enter()
        return str(names(room))

    assert in_child(action) == "[]"


def test_a_room_that_is_not_there_is_an_error_and_the_launcher_stays_where_it_is(room: Path) -> None:
    def action() -> str:
        before = namespace()
        try:
            MountNamespace.create({str(room / "nowhere"): BOUNDS})
        except FileNotFoundError:
            return str(namespace() == before)
        return "no error"

    assert in_child(action) == "True"


def test_a_candidate_finds_nothing_that_its_agent_wrote_and_leaves_nothing_to_the_next_grading() -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="rooms-", dir="/tmp") as shared:
        Path(shared).chmod(0o1777)
        private_folders = {shared: BOUNDS}
        with runner_box(
            "tests.fakes.agent_world", drop=True, agent_code=True, private_folders=private_folders
        ) as box:
            look = f"(os.listdir({shared!r}), open({shared + '/word'!r}, 'w').close())[0]"
            box.create("a")
            box.act("a", do="shell", command=f"touch {shared}/by-the-agent")
            seen = []
            for _ in range(2):
                box.act("a", do="candidate", entry="tests.fakes.agent_world:double")
                seen.append(box.act("a", do="request", message={"run": look})["value"])
                box.act("a", do="close")
            assert seen == [{"result": "[]"}, {"result": "[]"}]
            assert box.act("a", do="shell", command=f"ls {shared}")["output"] == "by-the-agent\n"
            assert box.release("a")
        assert names(Path(shared)) == []
