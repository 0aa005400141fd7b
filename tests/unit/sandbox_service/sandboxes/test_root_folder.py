"""The root folder of gVisor boxes."""

import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.hardening import BOX_PYTHON
from sandbox_service.sandboxes.oci_bundle import BundleRequest, bundle_config, write_bundle
from sandbox_service.sandboxes.root_folder import (
    add_mount_points,
    check_root,
    make_root,
    root_folder,
    with_links,
)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root-1"
    (folder / "opt/sandbox").mkdir(parents=True)
    (folder / BOX_PYTHON.lstrip("/")).symlink_to("/usr/bin/python3")
    (folder / "etc").mkdir()
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")
    return folder


def test_a_root_that_was_not_made_is_an_error_that_says_how(tmp_path):
    with pytest.raises(ServiceError, match="images build --gvisor") as caught:
        check_root(tmp_path / "none")
    assert caught.value.code is ErrorCode.IMAGE_MISSING


def test_a_root_with_links_shares_its_files_and_is_made_once(root):
    linked = with_links(root, ("app", "tests"))
    assert (linked / "app").readlink() == Path("/workspace/.task/app")
    assert (linked / "etc/hosts").stat().st_ino == (root / "etc/hosts").stat().st_ino
    assert with_links(root, ("tests", "app")) == linked
    assert with_links(root, ()) == root


def test_a_root_with_links_that_several_threads_make_at_once_is_one(root):
    for number in range(200):
        (root / f"etc/{number}").touch()
    with ThreadPoolExecutor(4) as threads:
        made = set(threads.map(lambda _: with_links(root, ("app",)), range(4)))
    assert sorted(root.parent.iterdir()) == sorted({root, *made})
    assert len(made) == 1


def test_all_that_boxes_mount_has_its_place_in_a_root_of_another_user(tmp_path):
    root, folder = tmp_path / "root", tmp_path / "bundle"
    root.mkdir()
    add_mount_points(root)
    request = BundleRequest(
        root,
        ("/bin/true",),
        Path("/state/box"),
        Path("/state/code"),
        SandboxLimits(),
        packages=Path("/e/packages"),
        data=Path("/e/data"),
        agent_packages={"mine": Path("/agents/mine")},
    )
    write_bundle(folder, request)
    bound = {each["destination"] for each in bundle_config(request)["mounts"] if each["type"] == "bind"}
    missing = {path for path in bound if not (root / path.lstrip("/")).exists()}
    assert missing == {"/opt/agents/mine"}
    assert (folder / "agents" / "mine").is_dir(), "mounted at /opt/agents"


async def test_a_source_without_python_is_refused_and_leaves_nothing(tmp_path):
    with tarfile.open(tmp_path / "base-bookworm.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("etc-hosts"))
    with pytest.raises(ServiceError, match="has no Python"):
        await make_root(lambda _: None, cache=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["base-bookworm.tar"]
    assert not root_folder(tmp_path).exists()
