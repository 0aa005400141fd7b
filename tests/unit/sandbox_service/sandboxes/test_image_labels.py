"""Labels of images: what an image is, and what it was built from."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from sandbox_service.sandboxes.image_labels import MARK, PREFIX, image_labels, revision


@pytest.fixture
def git(tmp_path: Path):
    """Runs git in a new repository with one commit; the file ``a`` is part of it."""

    def run(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    run("init")
    (tmp_path / "a").write_text("1")
    run("add", ".")
    run("commit", "-m", "first")
    return run


def test_an_image_says_what_it_is_and_of_which_release() -> None:
    labels = image_labels("sandbox-code", "Boxes")
    assert labels[MARK] == labels[f"{PREFIX}title"] == "sandbox-code"
    assert labels[f"{PREFIX}description"] == "Boxes"
    assert labels[f"{PREFIX}version"] == metadata.version("training-sandbox")


def test_only_images_of_the_projects_own_content_have_its_licence() -> None:
    assert f"{PREFIX}licenses" not in image_labels("sandbox-task", "Boxes")
    assert image_labels("sandbox-code", "Boxes", licensed=True)[f"{PREFIX}licenses"] == "Apache-2.0"


def test_no_label_is_empty() -> None:
    assert all(image_labels("sandbox-code", "Boxes", licensed=True).values())


def test_the_revision_is_the_commit_and_says_that_there_are_changes(git, tmp_path: Path) -> None:
    commit = git("rev-parse", "HEAD")
    assert revision(tmp_path) == commit
    revision.cache_clear()
    (tmp_path / "a").write_text("2")
    assert revision(tmp_path) == f"{commit}-dirty"


def test_a_tag_does_not_replace_the_commit(git, tmp_path: Path) -> None:
    git("tag", "-a", "v1", "-m", "release")
    assert revision(tmp_path) == git("rev-parse", "HEAD")


def test_an_installation_inside_a_repository_of_others_has_no_revision(git, tmp_path: Path) -> None:
    installed = tmp_path / "venv" / "site-packages"
    installed.mkdir(parents=True)
    assert revision(installed) == ""
