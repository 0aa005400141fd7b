"""The preparation of the pack: packages that fail, packages that are finished already, and the bar."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_service.environments.swe_mutants.setup import prepare
from sandbox_service.environments.swe_mutants.setup.prepare import gather, generate_all, progress
from sandbox_service.environments.swe_mutants.setup.sources import Package


def package(name: str, split: str = "train") -> Package:
    return Package(name, "1.0", "MIT", (name,), ("tests",), split, 4)


def finish(kept: Path, name: str, tasks: int) -> None:
    for number in range(tasks):
        task = kept / name / f"{name}-{number:03d}"
        task.mkdir(parents=True)
        (task / "task.toml").write_text(name)


def test_a_package_that_fails_is_told_of_and_left_out_and_finished_ones_stay(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # No distribution is pinned for it, so its generator fails.
    chosen = [package("absent"), package("finished")]
    kept = tmp_path / "kept"
    finish(kept, "finished", 4)
    assert generate_all(chosen, tmp_path, tmp_path, kept, "pytest==8") == []
    told = capfd.readouterr().out
    assert "1 packages were finished by an earlier set-up" in told
    assert "absent: left out: its generator ended with status 1" in told
    assert "4 of 8 tasks, 1 of 2 packages" in told
    (tmp_path / "data").mkdir()
    assert gather(chosen, kept, tmp_path / "data") == {"train": 4}


def test_a_package_that_only_lacked_time_is_named_so_that_no_smaller_pack_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "PACKAGE_S", 0.0)
    kept = tmp_path / "kept"
    finish(kept, "finished", 4)
    chosen = [package("starved"), package("finished")]
    assert generate_all(chosen, tmp_path, tmp_path, kept, "pytest==8") == ["starved"]


def test_tasks_are_gathered_by_split_and_stay_for_another_attempt(tmp_path: Path) -> None:
    chosen = [package("red"), package("blue", "test"), package("green", "test")]
    finish(tmp_path / "kept", "red", 3)
    finish(tmp_path / "kept", "blue", 2)
    finish(tmp_path / "kept", "green.part", 1)
    for attempt in ("first", "second"):
        data = tmp_path / attempt
        data.mkdir()
        assert gather(chosen, tmp_path / "kept", data) == {"train": 3, "test": 2}
        assert {path.parent.name for path in data.glob("*/blue-*")} == {"test"}


def test_the_bar_counts_tasks_of_packages_that_are_not_finished_yet(tmp_path: Path) -> None:
    chosen = [package("red"), package("blue")]
    assert progress(chosen, tmp_path, 0.0).startswith("[" + "." * 30 + "] 0 of 8 tasks, 0 of 2 packages")
    finish(tmp_path, "red", 4)
    finish(tmp_path, "blue.part", 2)
    line = progress(chosen, tmp_path, 12.4)
    assert line.count("#") == 22
    assert line.endswith("6 of 8 tasks, 1 of 2 packages, 12 s")
