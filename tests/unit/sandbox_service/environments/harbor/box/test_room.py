"""Tests have room, whatever the agent left, and the agent's files are there again afterwards."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_service.environments.harbor.box.copies import copy_folders
from sandbox_service.environments.harbor.box.room import LEAST_ARCHIVE, Room, free_share, has_strangers
from sandbox_service.runner.world import WorldError
from tests.harness.agent import FakeAgent

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_service.environments.harbor.box.step_tests import Work

SOMEBODY = 61_234

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user's files need root")


@pytest.fixture
def agent(tmp_path: Path) -> FakeAgent:
    return FakeAgent(tmp_path / "box")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder like ``/tmp`` in the box."""
    folder = tmp_path / "box" / "tmp"
    folder.mkdir(parents=True)
    return folder


def room(agent: FakeAgent, scratch: Path, work: Work | None = None, seconds: float = 60.0) -> Room:
    return Room(agent, work, time.monotonic() + seconds, [str(scratch)], least_share=0.0)


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_agents_files_are_gone_for_the_tests_and_come_back(agent: FakeAgent, scratch: Path) -> None:
    agent.write_files({"app/a.py": b"a", ".cache/b": b"b"})
    agent.shell(f"mkdir -m 500 closed; ln -s a.py app/link; echo c > '{scratch}/its file'", 10)
    taken = room(agent, scratch)
    taken.make()
    assert left(scratch.parent) == ["workspace"]
    scratch.mkdir(exist_ok=True)
    (scratch.parent / "workspace" / "app").mkdir()
    taken.give_back()
    assert left(scratch.parent / "workspace") == [
        ".cache",
        ".cache/b",
        "app",
        "app/a.py",
        "app/link",
        "closed",
    ]
    assert (scratch / "its file").read_text() == "c\n"
    assert agent.shell("stat -c %a closed; readlink app/link", 10).output == "500\na.py\n"


def test_what_is_too_large_to_be_kept_comes_back_as_far_as_it_was_graded(
    agent: FakeAgent, scratch: Path
) -> None:
    agent.write_files({"app/a.py": b"a", "logs/b": b"b"})
    work = copy_folders(agent, 10)
    agent.write_file("cache", os.urandom(LEAST_ARCHIVE * 3 // 4 + 1))
    taken = room(agent, scratch, work)
    taken.make()
    taken.give_back()
    assert left(scratch.parent / "workspace") == ["app", "app/a.py", "logs", "logs/b"]


def test_the_working_directory_comes_back_where_artifacts_are_graded(agent: FakeAgent, scratch: Path) -> None:
    agent.write_files({"app/a.py": b"a", "app/b": b"b", "logs/c": b"c"})
    agent.write_file("cache", os.urandom(LEAST_ARCHIVE * 3 // 4 + 1))
    taken = room(agent, scratch, [{"source": "app/b", "kind": "f", "archive": "Yg=="}])
    taken.make()
    taken.give_back()
    assert left(scratch.parent / "workspace") == ["app", "app/a.py", "app/b", "logs", "logs/c"]


def test_nothing_is_given_back_twice_or_without_need(agent: FakeAgent, scratch: Path) -> None:
    agent.write_file("app/a.py", b"a")
    taken = room(agent, scratch)
    taken.give_back()
    assert left(scratch.parent / "workspace") == ["app", "app/a.py"]
    taken.make()
    taken.give_back()
    agent.shell("rm -r app", 10)
    taken.give_back()
    assert left(scratch.parent / "workspace") == []


@as_root
def test_a_file_of_another_user_may_be_in_the_way_of_the_tests(scratch: Path) -> None:
    (scratch / "tests.log").touch()
    assert not has_strangers(str(scratch), ())
    os.chown(scratch / "tests.log", SOMEBODY, SOMEBODY)
    assert has_strangers(str(scratch), ())
    assert not has_strangers(str(scratch), [str(scratch / "tests.log")])


@pytest.mark.parametrize(
    ("blocks", "files", "share"),
    [
        ((100, 25), (10, 10), 0.25),
        ((100, 100), (10, 1), 0.1),
        ((100, 50), (0, 0), 0.5),
        ((0, 0), (0, 0), 1.0),
    ],
)
def test_room_is_bytes_and_files_as_far_as_they_are_bounded(
    blocks: tuple[int, int], files: tuple[int, int], share: float
) -> None:
    values = (4096, 4096, blocks[0], blocks[1], blocks[1], files[0], files[1], files[1], 0, 255)
    assert free_share(os.statvfs_result(values)) == share


@as_root
def test_what_stays_in_the_tests_folders_is_the_agents_unless_the_machine_is_busy(
    agent: FakeAgent, scratch: Path
) -> None:
    (scratch / "other").touch()
    os.chown(scratch / "other", SOMEBODY, SOMEBODY)
    with pytest.raises((TimeoutError, WorldError)) as caught:
        room(agent, scratch, seconds=0.2).wait_for_room()
    assert not isinstance(caught.value, WorldError) or caught.value.code == "deadline_exceeded"


def test_folders_that_are_full_without_the_agents_files_are_the_boxs_fault(
    agent: FakeAgent, scratch: Path
) -> None:
    full = Room(agent, None, time.monotonic() + 0.2, [str(scratch)], least_share=1.1)
    with pytest.raises(WorldError, match="the tests have no room") as caught:
        full.wait_for_room()
    assert caught.value.code == "sandbox_failed"


def test_more_files_than_a_commands_arguments_may_have_come_back(agent: FakeAgent, scratch: Path) -> None:
    names = sorted(f"{number:04}{'n' * 240}" for number in range(1000))
    agent.write_files(dict.fromkeys([*names, "!", "(", "-rf"], b""))
    taken = room(agent, scratch)
    taken.make()
    assert left(scratch.parent / "workspace") == []
    taken.give_back()
    assert left(scratch.parent / "workspace") == sorted([*names, "!", "(", "-rf"])


@as_root
def test_a_folder_in_place_of_the_link_is_in_the_way_of_the_tests(scratch: Path) -> None:
    link = scratch / ".task"
    link.symlink_to("/nowhere")
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    assert not has_strangers(str(scratch), (), str(link))
    link.unlink()
    link.mkdir()
    os.chown(link, SOMEBODY, SOMEBODY)
    assert has_strangers(str(scratch), (), str(link))
