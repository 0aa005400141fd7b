"""Places that a process box need not see."""

import sys
import sysconfig
from pathlib import Path

import pytest

import sandbox_service
from sandbox_service.environments.provisions import default_root
from sandbox_service.sandboxes.covers import coverable, own_places, prefix_of

PYTHON = "/usr/bin/python3"


@pytest.fixture
def tree():
    """Folders outside those that every box has for itself."""
    root = Path("/var/lib") / "covers-test"
    try:
        (root / "inner").mkdir(parents=True)
    except PermissionError:
        pytest.skip("cannot make folders outside /tmp")
    (root / "file").touch()
    yield root
    (root / "file").unlink()
    (root / "inner").rmdir()
    root.rmdir()


def test_a_folder_or_a_file_is_covered_once(tree):
    assert coverable([tree / "inner", tree], PYTHON) == (tree,)
    assert coverable([tree / "inner", tree / "file"], PYTHON) == (tree / "file", tree / "inner")


def test_what_is_not_there_or_hidden_anyway_is_left_out(tmp_path):
    assert (
        coverable([Path("/nowhere"), tmp_path if tmp_path.is_relative_to("/tmp") else "/tmp/x"], PYTHON) == ()
    )


@pytest.mark.parametrize("path", ["/", "/usr", "/usr/lib", "/etc", "/proc", "/dev", "/var", "/mnt"])
def test_what_every_program_needs_is_never_covered(path):
    assert coverable([Path(path)], PYTHON) == ()


def test_packages_within_the_interpreters_folder_can_be_covered(tree):
    interpreter = str(tree / "bin" / "python3")
    assert prefix_of(interpreter) == tree
    assert coverable([tree, tree / "inner"], interpreter) == (tree / "inner",)
    assert coverable([tree.parent / "covers-test" / ".."], str(tree / "inner/bin/python3")) == (tree.parent,)


def test_the_services_own_interpreter_is_known_by_its_base():
    assert prefix_of(str(Path(sys.executable).resolve())) == Path(sys.base_prefix).resolve()


def test_homes_code_packages_and_prepared_environments_are_own_places():
    places = own_places()
    assert Path.home() in places
    assert Path.cwd() in places
    assert Path(sandbox_service.__path__[0]).resolve().parent in places
    assert Path(sysconfig.get_path("purelib")) in places
    assert default_root().parent in places
