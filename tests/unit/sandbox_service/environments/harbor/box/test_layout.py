"""The places of a task's folders, in our own boxes and in images of tasks."""

import pytest

from sandbox_service.environments.harbor.box.layout import image_variables, prologue, unpack
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
