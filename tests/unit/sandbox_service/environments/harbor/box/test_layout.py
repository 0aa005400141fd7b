"""The places of a task's folders, in our own boxes and in images of tasks."""

import base64
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from sandbox_service.environments.harbor.box.layout import (
    LINK,
    image_variables,
    pack,
    pack_all,
    prologue,
    unpack,
)
from sandbox_service.environments.harbor.box.tools import in_workspace


@pytest.mark.parametrize(
    ("path", "workdir", "found"),
    [
        ("notes.txt", "/app", "app/notes.txt"),
        ("/app/notes.txt", "/app", "app/notes.txt"),
        ("/app", "/app", "app"),
        ("/logs/agent/a", "/app", "logs/agent/a"),
        ("/apples/a", "/app", "/apples/a"),
        ("/srv/project/a.py", "/srv/project", "app/a.py"),
        ("/srv/projects/a.py", "/srv/project", "/srv/projects/a.py"),
        ("a.py", "/srv/project", "app/a.py"),
    ],
)
def test_the_editor_reaches_the_working_directory_by_its_own_path(
    path: str, workdir: str, found: str
) -> None:
    assert in_workspace(path, workdir) == found


def test_variables_of_an_image_may_hold_lines_and_equals_signs() -> None:
    assert image_variables("A=1\0B=x=y\nz\0\0") == {"A": "1", "B": "x=y\nz"}


def test_commands_begin_in_the_working_directory_with_quoted_variables() -> None:
    assert prologue({"A": "it's"}, "/srv/my project") == (
        "cd '/srv/my project' || exit 1; export A='it'\"'\"'s'; "
    )


@pytest.mark.parametrize("archive", ["QUJD", "Q" * 200_000], ids=["short", "long"])
def test_what_unpacks_an_archive_is_a_script_and_never_an_argument(archive: str) -> None:
    command = unpack(archive, "/workspace/1")
    assert len(command) > 128 * 1024
    assert command.splitlines()[1] == archive
    assert not "".join(command.splitlines()[2:])


def packed(*folders: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", pack_all([str(folder) for folder in folders])]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_everything_of_the_agent_is_packed_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("plain", "two words", "-option", "back\\slash", "line\nfeed", ".hidden"):
        (folder / name).write_text(name)
    (folder / LINK).write_text("the verifier's")
    done = packed(folder)
    assert done.returncode == 0
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done.stdout))) as archive:
        names = {Path(each).name for each in archive.getnames()}
    assert names == {"plain", "two words", "-option", "back\\slash", "line\nfeed", ".hidden"}


def test_a_tar_that_is_killed_makes_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, programs = tmp_path / "own", tmp_path / "killed"
    for each in (folder, programs):
        each.mkdir()
    (folder / "file").write_text("x")
    (programs / "tar").write_text("#!/bin/bash\nkill -9 $$\n")
    (programs / "tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert packed(folder).returncode != 0


def test_nothing_to_pack_makes_no_copy(tmp_path: Path) -> None:
    assert packed(tmp_path).returncode != 0


def test_nested_folders_are_packed_as_fast_as_others_without_the_verifiers_logs(tmp_path: Path) -> None:
    for name in ("app", "logs/agent", "logs/verifier", "app/logs/verifier"):
        (tmp_path / name).mkdir(parents=True)
    folder = tmp_path / "app"
    for _ in range(500):
        folder = folder / "d"
        folder.mkdir()
    # Each program may compute for two seconds.
    command = ["bash", "-c", f"ulimit -t 2; {pack(str(tmp_path))}"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done.stdout))) as archive:
        names = archive.getnames()
    assert max(name.count("/d") for name in names) == 500
    assert {name for name in names if "logs" in name} == {
        "app/logs",
        "app/logs/verifier",
        "logs",
        "logs/agent",
    }
