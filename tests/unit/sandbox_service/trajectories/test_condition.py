import sqlite3
import tempfile
from pathlib import Path

import pytest

from sandbox_service.config import StoreConfig
from sandbox_service.trajectories.condition import (
    StoreState,
    StoreUnreachableError,
    examine_store,
    store_file,
)
from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.store import open_store
from sandbox_service.trajectories.upgrade import prepare
from tests.harness.forked import holds_without_root


@pytest.fixture
def url(tmp_path) -> str:
    """The URL of a store of this release."""
    url = f"sqlite:///{tmp_path}/t.sqlite"
    engine = connect(url)
    prepare(engine)
    engine.dispose()
    return url


def set_revision(url: str, revision: str) -> None:
    with sqlite3.connect(store_file(url)) as connection:
        connection.execute("UPDATE trajectory_revision SET version_num = ?", (revision,))
    connection.close()


def test_a_store_of_this_release_is_current(url) -> None:
    condition = examine_store(url)
    assert (condition.state, condition.kind) == (StoreState.CURRENT, "sqlite")
    assert condition.clock_ahead_s is None


def test_a_store_of_an_earlier_release_is_older(url) -> None:
    set_revision(url, "0001")
    assert examine_store(url).state is StoreState.OLDER


def test_a_store_of_a_later_release_is_foreign(url) -> None:
    set_revision(url, "9999")
    condition = examine_store(url)
    assert condition.state is StoreState.FOREIGN
    assert "9999" in condition.detail


def test_a_file_that_does_not_exist_is_empty_and_is_not_made(tmp_path) -> None:
    file = tmp_path / "sub" / "t.sqlite"
    assert examine_store(f"sqlite:///{file}").state is StoreState.EMPTY
    assert not file.parent.exists()


def test_a_database_of_another_application_is_left_as_it_is(tmp_path) -> None:
    file = tmp_path / "other.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE events (id INTEGER)")
    connection.close()
    before = file.read_bytes()
    assert examine_store(f"sqlite:///{file}").state is StoreState.FOREIGN
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["other.sqlite"]


def test_a_file_of_another_kind_is_foreign(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be read as one" * 10)
    condition = examine_store(f"sqlite:///{tmp_path}/notes.txt")
    assert condition.state is StoreState.FOREIGN
    assert "not an SQLite file" in condition.detail


@pytest.mark.parametrize("url", ["mysql://db/t", "sqlite://", "no url"])
def test_a_url_of_another_kind_is_invalid(url) -> None:
    assert examine_store(url).state is StoreState.INVALID


def test_a_server_that_does_not_answer_is_unreachable_and_its_password_is_not_shown() -> None:
    condition = examine_store("postgresql://user:secret@127.0.0.1:1/t")
    assert (condition.state, condition.kind) == (StoreState.UNREACHABLE, "postgresql")
    assert "secret" not in condition.detail


def test_a_store_that_cannot_be_reached_is_one_sentence_without_its_password() -> None:
    url = "postgresql://ada:secret@127.0.0.1:9/sandbox?sslmode=disable"
    with pytest.raises(StoreUnreachableError) as caught:
        open_store(StoreConfig(url=url))
    said = str(caught.value)
    assert said.startswith("the database postgresql+psycopg://ada:***@127.0.0.1:9/sandbox does not answer")
    assert "Connection refused" in said
    assert said.endswith("start it, or correct store.url")
    assert "\n" not in said


@pytest.fixture
def others_file():
    """The store of this release that another user owns, in a folder that every user may write in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "t.sqlite"
        engine = connect(f"sqlite:///{file}")
        prepare(engine)
        engine.dispose()
        file.chmod(0o444)
        folder.chmod(0o777)
        yield file


def test_a_file_that_this_user_may_only_read_is_denied(others_file) -> None:
    def is_denied() -> bool:
        condition = examine_store(f"sqlite:///{others_file}")
        return condition.state is StoreState.DENIED and str(others_file) in condition.detail

    assert holds_without_root(is_denied)


@pytest.mark.parametrize("content", ["tables", "text", "later release"])
def test_a_file_of_another_application_that_this_user_may_only_read_is_foreign(others_file, content) -> None:
    if content == "later release":
        set_revision(f"sqlite:///{others_file}", "9999")
    else:
        others_file.unlink()
        others_file.write_text("not a database, but long enough to be read as one" * 10)
    if content == "tables":
        others_file.unlink()
        with sqlite3.connect(others_file) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE events (id INTEGER)")
        connection.close()
    others_file.chmod(0o444)
    beside = set(others_file.parent.iterdir())
    url = f"sqlite:///{others_file}"
    assert holds_without_root(lambda: examine_store(url).state is StoreState.FOREIGN)
    assert set(others_file.parent.iterdir()) == beside


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_file_beside_the_database_that_this_user_may_only_read_is_denied(others_file, suffix) -> None:
    others_file.chmod(0o666)
    beside = others_file.with_name(others_file.name + suffix)
    beside.touch(mode=0o444)
    assert holds_without_root(lambda: beside.name in examine_store(f"sqlite:///{others_file}").detail)


def test_a_file_in_a_folder_that_this_user_may_not_enter_is_denied(others_file) -> None:
    others_file.parent.chmod(0o000)
    seen = holds_without_root(lambda: examine_store(f"sqlite:///{others_file}").state is StoreState.DENIED)
    others_file.parent.chmod(0o700)
    assert seen


@pytest.mark.parametrize("name", ["new.sqlite", "new/folder/t.sqlite"])
def test_a_file_that_this_user_cannot_make_is_denied(others_file, name) -> None:
    others_file.parent.chmod(0o755)
    file = others_file.parent / name

    def is_denied() -> bool:
        condition = examine_store(f"sqlite:///{file}")
        return condition.state is StoreState.DENIED and f"{file.parent}, the folder" in condition.detail

    assert holds_without_root(is_denied)
    assert examine_store(f"sqlite:///{others_file}").state is StoreState.CURRENT
    assert not file.parent.exists() or file.parent == others_file.parent


def test_a_file_beside_which_this_user_can_make_none_is_denied(others_file) -> None:
    """SQLite keeps its log beside the database."""
    others_file.chmod(0o666)
    others_file.parent.chmod(0o755)
    assert holds_without_root(
        lambda: examine_store(f"sqlite:///{others_file}").state is StoreState.DENIED,
    )


def test_a_link_is_examined_where_it_leads(others_file) -> None:
    """SQLite keeps its log beside the database, not beside the link."""
    others_file.chmod(0o666)
    with tempfile.TemporaryDirectory() as name:
        closed = Path(name)
        link = closed / "t.sqlite"
        link.symlink_to(others_file)
        examined = f"sqlite:///{link}"
        others_file.parent.chmod(0o755)
        closed.chmod(0o777)
        assert holds_without_root(lambda: examine_store(examined).state is StoreState.DENIED)
        others_file.parent.chmod(0o777)
        closed.chmod(0o755)
        assert holds_without_root(lambda: examine_store(examined).state is StoreState.CURRENT)


def test_a_folder_is_denied_as_a_file(tmp_path) -> None:
    condition = examine_store(f"sqlite:///{tmp_path}")
    assert (condition.state, condition.detail) == (StoreState.DENIED, f"{tmp_path} is a folder, not a file")
