"""The mark of a database that several supervisors write to."""

import stat

import pytest
from sqlalchemy.engine import make_url

from sandbox_service.trajectories.shared_mark import SharedMark


def test_a_mark_is_there_for_all_once_one_has_left_it_whatever_name_they_know_the_file_by(tmp_path):
    file, link = tmp_path / "trajectories.sqlite", tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(file)
    mark, same = (SharedMark(make_url(f"sqlite:///{path}")) for path in (file, link))
    assert (mark.is_left(), same.is_left()) == (False, False)
    same.leave()
    same.leave()
    assert (mark.is_left(), same.is_left()) == (True, True)
    left = tmp_path / "trajectories.sqlite-shared"
    assert stat.S_IMODE(left.stat().st_mode) == 0o600


def test_a_mark_that_cannot_be_left_is_an_error(tmp_path):
    mark = SharedMark(make_url(f"sqlite:///{tmp_path}/gone/trajectories.sqlite"))
    with pytest.raises(FileNotFoundError):
        mark.leave()


def test_a_postgresql_database_may_always_be_shared():
    mark = SharedMark(make_url("postgresql+psycopg://localhost/trajectories"))
    mark.leave()
    assert mark.is_left()
