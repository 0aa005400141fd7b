"""Which files go into a box."""

import dataclasses

import pytest

from sandbox_service.environments.digests import digest
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.content import box_files, box_modules

SPEC = EchoCatalog.spec


def test_a_box_gets_the_runner_and_its_environments_world():
    files = box_files(SPEC)
    assert "sandbox_service/__init__.py" in files
    assert "sandbox_service/wire/frames.py" in files
    assert "sandbox_service/environments/__init__.py" in files
    assert "sandbox_service/environments/echo/box/world.py" in files


def test_a_box_gets_no_catalog_no_service_and_no_other_environment():
    files = box_files(SPEC)
    assert not [path for path in files if "catalog" in path or "packs" in path or "__pycache__" in path]
    for path in files:
        if path.startswith("sandbox_service/environments/") and path.count("/") > 2:
            assert path.split("/")[2] in {"actions", "echo", "games"}
    assert {path.split("/")[1] for path in files} == {"__init__.py", "environments", "runner", "wire"}


def test_data_packs_and_catalogs_of_any_folder_stay_out(tmp_path, monkeypatch):
    for path in (
        "world.py",
        "catalog.py",
        "catalog_extra.py",
        "packs/answers.py",
        "setup/prepare.py",
        "parts/tool.py",
    ):
        file = tmp_path / "someenv" / "mine" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    spec = dataclasses.replace(SPEC, name="mine", world_module="someenv.mine.world")
    own = [path for path in box_files(spec) if path.startswith("someenv")]
    assert own == ["someenv/mine/parts/tool.py", "someenv/mine/world.py"]


def test_a_world_that_is_nowhere_is_an_error():
    with pytest.raises(ServiceError, match="no package"):
        box_files(dataclasses.replace(SPEC, world_module="sandbox_service.environments.nowhere.world"))


def test_modules_are_named_as_they_are_imported():
    assert box_modules({"a/__init__.py": b"", "a/b/c.py": b""}) == ["a", "a.b.c"]


def test_a_digest_follows_names_and_content_and_not_their_order():
    assert digest({"a": b"1", "b": b"2"}) == digest({"b": b"2", "a": b"1"})
    assert digest({"a": b"1"}) != digest({"a": b"2"})
    assert digest({"a": b"1"}) != digest({"b": b"1"})
    assert digest({"ab": b""}) != digest({"a": b"b"})
