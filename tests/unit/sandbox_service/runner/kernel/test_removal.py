"""Removal and proof, on a directory of our own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_service.runner.kernel.removal import (
    find_owned,
    owns_nothing,
    paths_below,
    remove_owned,
    remove_tree,
)

OWN = os.geteuid()
OTHER = 54_321


def plant(root: Path) -> None:
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e" / "f").write_text("x")
    (root / "plain").write_text("x")
    (root / "link").symlink_to("/etc/passwd")
    (root / "to-a-directory").symlink_to("/etc")


def test_everything_of_a_user_goes_and_the_root_stays(tmp_path: Path) -> None:
    plant(tmp_path)
    remove_owned([str(tmp_path)], OWN)
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc/passwd").exists()


def test_what_is_kept_stays_with_what_leads_to_it(tmp_path: Path) -> None:
    plant(tmp_path)
    remove_owned([str(tmp_path)], OWN, frozenset({f"{tmp_path}/d", f"{tmp_path}/plain"}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "plain"]


def test_any_depth_is_removed(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    remove_owned([str(tmp_path)], OWN)
    assert list(tmp_path.iterdir()) == []


def test_a_tree_goes_with_its_root_although_it_is_locked(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    plant(root)
    (root / "d").chmod(0)
    root.chmod(0)
    remove_tree(str(root), OWN)
    assert not root.exists()


def test_a_link_in_a_trees_place_goes_and_what_it_names_stays_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    (target / "f").write_text("x")
    (tmp_path / "w").symlink_to(target)
    remove_tree(str(tmp_path / "w"), OWN)
    assert not (tmp_path / "w").is_symlink()
    assert (target / "f").exists()
    assert target.stat().st_mode & 0o777 == 0o755


def test_other_peoples_files_are_found_and_never_removed(tmp_path: Path) -> None:
    if OWN != 0:
        pytest.skip("giving files away needs root")
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, OTHER, OTHER)
    plant(shared)
    theirs = shared / "theirs"
    theirs.write_text("x")
    os.chown(theirs, OTHER, OTHER)
    remove_owned([str(tmp_path)], OWN)
    assert [path.name for path in shared.iterdir()] == ["theirs"]
    found = find_owned([str(tmp_path)], lambda uid: uid == OTHER, frozenset())
    assert found == [str(shared), str(theirs)]
    assert find_owned([str(tmp_path)], lambda uid: uid == OTHER, frozenset({str(shared)})) == [str(theirs)]


def test_a_report_names_a_bounded_number_of_paths(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).write_text("x")
    assert len(find_owned([str(tmp_path)], lambda _: True, frozenset())) == 20
    assert len(paths_below([str(tmp_path), "/does/not/exist"])) == 100


def test_a_short_look_tells_who_owns_nothing(tmp_path: Path) -> None:
    plant(tmp_path)
    assert owns_nothing(OTHER, [str(tmp_path)])
    assert not owns_nothing(OWN, [str(tmp_path)])


def test_a_short_look_does_not_vouch_for_what_it_has_not_seen(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / str(number)).touch()
    assert not owns_nothing(OTHER, [str(tmp_path)])
