"""Cleaning costs a process only where there is something to remove."""

from __future__ import annotations

import os
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.kernel.removal import MAX_LEFT
from sandbox_service.runner.launcher.cleanup import Cleanup
from tests.harness.runner_box import uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = 2_000_000_000
AGENT, CANDIDATE = BASE + 2, BASE + 3000
MANY = 5000
"""Files whose removal takes far longer than SHORT_S."""
SHORT_S = 1e-6
"""The kernel looks at such a limit at its next tick, after 10 ms at most."""
_forks: list[None] = []
os.register_at_fork(before=lambda: _forks.append(None))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that every user can write, beside one for workspaces, as in a box."""
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder)
        box.chmod(0o711)
        for name in ("scratch", "w"):
            (box / name).mkdir()
            (box / name).chmod(0o1777)
        yield box / "scratch"


def cleanup_of(scratch: Path, **changes: float) -> Cleanup:
    config = RunnerConfig(
        "w",
        str(scratch.parent / "w"),
        agent_code=True,
        scratch=(str(scratch),),
        drop_uids=True,
        uid_base=BASE,
        uid_count=4000,
        env_uid=BASE - 16,
    )
    cleanup = Cleanup(replace(config, **changes))
    cleanup.mark()
    _forks.clear()
    return cleanup


@pytest.fixture
def janitor(scratch: Path) -> Cleanup:
    return cleanup_of(scratch)


def test_all_that_lay_there_when_the_world_was_ready_stays(janitor: Cleanup, scratch: Path) -> None:
    files = [scratch / str(number) for number in range(50)]
    for file in files:
        file.write_text("x")
        os.chown(file, BASE - 16, BASE - 16)
    janitor.mark()
    assert janitor.clean_all([], []) == []
    assert all(file.exists() for file in files)


def test_folders_that_no_process_can_be_made_to_close_are_reported(janitor: Cleanup, scratch: Path) -> None:
    made_by(scratch / "open", AGENT).chmod(0o777)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # Root's processes are not counted, so another user id must be taken.
            os.setresuid(BASE + 9, BASE + 9, BASE + 9)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            code = int(janitor.close(AGENT))
        finally:
            os._exit(code * 7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def made_by(path: Path, uid: int) -> Path:
    path.mkdir(mode=0o700)
    os.chown(path, uid, uid)
    return path


def test_an_instance_that_wrote_nothing_costs_no_process(janitor: Cleanup, scratch: Path) -> None:
    workspace = made_by(scratch.parent / "w" / "1", AGENT)
    assert janitor.clean_all([1], {AGENT}) == []
    assert not workspace.exists()
    assert not _forks


@pytest.mark.parametrize("place", ["w/1/file", "scratch/file", "w/file"])
def test_what_an_instance_wrote_goes_wherever_it_lies(janitor: Cleanup, scratch: Path, place: str) -> None:
    made_by(scratch.parent / "w" / "1", AGENT)
    file = scratch.parent / place
    file.write_text("x")
    os.chown(file, AGENT, AGENT)
    assert janitor.clean_all([1], {AGENT}) == []
    assert not file.exists()
    assert list((scratch.parent / "w").iterdir()) == []


def test_a_link_in_a_workspaces_place_goes_and_what_it_names_stays(janitor: Cleanup, scratch: Path) -> None:
    target = scratch.parent / "empty"
    target.mkdir()
    link = scratch.parent / "w" / "1"
    link.symlink_to(target)
    os.lchown(link, AGENT, AGENT)
    assert janitor.clean_all([1], {AGENT}) == []
    assert not link.is_symlink()
    assert target.is_dir()


def test_what_nobody_who_left_may_remove_is_named(janitor: Cleanup, scratch: Path) -> None:
    other = made_by(scratch / "of-another", AGENT + 1)
    assert janitor.clean_all([1], {AGENT}) == [str(other)]


def test_a_candidate_that_wrote_nothing_costs_no_process(janitor: Cleanup, scratch: Path) -> None:
    directory = made_by(scratch.parent / "w" / "candidate-0", CANDIDATE)
    made_by(scratch / "of-a-neighbour", AGENT)
    assert janitor.clean(CANDIDATE, str(directory))
    assert not directory.exists()
    assert not _forks


@pytest.mark.parametrize("place", ["w/candidate-0/file", "scratch/file"])
def test_what_a_candidate_wrote_is_removed(janitor: Cleanup, scratch: Path, place: str) -> None:
    directory = made_by(scratch.parent / "w" / "candidate-0", CANDIDATE)
    neighbours = made_by(scratch / "of-a-neighbour", AGENT)
    file = scratch.parent / place
    file.write_text("x")
    os.chown(file, CANDIDATE, CANDIDATE)
    assert janitor.clean(CANDIDATE, str(directory))
    assert not file.exists()
    assert not directory.exists()
    assert neighbours.exists()


def test_a_cleanup_that_computes_for_too_long_is_given_up_and_what_is_left_is_named(scratch: Path) -> None:
    workspace = made_by(scratch.parent / "w" / "1", AGENT)
    for folder in (workspace, scratch):
        for number in range(MANY):
            os.mknod(folder / str(number))
            os.chown(folder / str(number), AGENT, AGENT)
    hasty = cleanup_of(scratch, cleanup_cpu_s=SHORT_S)
    left = hasty.clean_instance(1, AGENT, True, ())
    assert str(workspace) in left
    assert 0 < len(left) <= MAX_LEFT + 1
    assert hasty.clean_all([1], {AGENT}) != []
    assert cleanup_of(scratch).clean_all([1], {AGENT}) == []
