from __future__ import annotations

import base64
import io
import subprocess
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_service.environments.harbor.box.artifacts import pack_artifacts
from sandbox_service.runner.world import Execution, WorldError

if TYPE_CHECKING:
    from pathlib import Path


class Shell:
    """An agent whose commands run here."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = str(workspace)

    def shell(self, command: str, timeout_s: float, max_output: int, wall_timeout_s: float) -> Execution:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=wall_timeout_s)
        return Execution(done.stdout[:max_output], done.returncode, truncated=len(done.stdout) > max_output)


class Broken(Shell):
    def shell(self, command: str, timeout_s: float, max_output: int, wall_timeout_s: float) -> Execution:
        return Execution("it is gone", None)


def artifact(source: str, *exclude: str) -> dict[str, object]:
    return {"source": source, "exclude": list(exclude)}


def names(archive: str) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as opened:
        return set(opened.getnames())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("app/out/a.txt", "app/out/build/b.txt", "app/build/out", "app/-v", "logs/artifacts/report"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "app/link").symlink_to("out")
    return tmp_path


def test_folders_and_files_are_packed_by_themselves(workspace: Path) -> None:
    wanted = [artifact("logs/artifacts"), artifact("app/out/a.txt"), artifact("app/-v")]
    packed = pack_artifacts(Shell(workspace), wanted, 20.0, 10**6, 15.0)  # type: ignore[arg-type]
    assert packed is not None
    assert [(each["source"], each["kind"]) for each in packed] == [
        ("logs/artifacts", "d"),
        ("app/out/a.txt", "f"),
        ("app/-v", "f"),
    ]
    assert [names(each["archive"]) for each in packed] == [{".", "./report"}, {"a.txt"}, {"-v"}]


def test_patterns_are_about_the_content_and_not_the_artifact_itself(workspace: Path) -> None:
    wanted = [artifact("app/out", "build"), artifact("app/build", "build")]
    packed = pack_artifacts(Shell(workspace), wanted, 20.0, 10**6, 15.0)  # type: ignore[arg-type]
    assert packed is not None
    assert [names(each["archive"]) for each in packed] == [{".", "./a.txt"}, {".", "./out"}]


def test_what_is_not_there_and_links_are_left_out(workspace: Path) -> None:
    wanted = [artifact("app/missing"), artifact("app/link")]
    assert pack_artifacts(Shell(workspace), wanted, 20.0, 10**6, 15.0) == []  # type: ignore[arg-type]


def test_more_than_the_bound_in_all_is_nothing(workspace: Path) -> None:
    wanted = [artifact("app/out"), artifact("logs/artifacts")]
    one = pack_artifacts(Shell(workspace), wanted[:1], 20.0, 10**6, 15.0)  # type: ignore[arg-type]
    assert one is not None
    bound = len(one[0]["archive"]) + 8
    assert pack_artifacts(Shell(workspace), wanted, 20.0, bound, 15.0) is None  # type: ignore[arg-type]


class Slow(Shell):
    """Each command takes a little longer than the time of all."""

    ran = 0

    def shell(self, command: str, timeout_s: float, max_output: int, wall_timeout_s: float) -> Execution:
        self.ran += 1
        time.sleep(wall_timeout_s + 0.01)
        return Execution("", 0)


def test_nothing_is_packed_when_the_time_of_all_is_used_up(workspace: Path) -> None:
    slow = Slow(workspace)
    wanted = [artifact("app/out"), artifact("app/build"), artifact("logs/artifacts")]
    assert pack_artifacts(slow, wanted, 0.0, 10**6, 15.0) is None  # type: ignore[arg-type]
    assert slow.ran == 1


def test_a_box_that_cannot_pack_is_the_sandboxs_failure(workspace: Path) -> None:
    with pytest.raises(WorldError, match="could not be packed: it is gone"):
        pack_artifacts(Broken(workspace), [artifact("app")], 20.0, 10**6, 15.0)  # type: ignore[arg-type]


class Computing(Shell):
    """Each command computes for eight seconds."""

    ran = 0

    def shell(self, command: str, timeout_s: float, max_output: int, wall_timeout_s: float) -> Execution:
        self.ran += 1
        return Execution("", 0, duration_s=9.0, waited_s=1.0)


def test_artifacts_that_compute_too_long_in_all_are_nothing(workspace: Path) -> None:
    shell = Computing(workspace)
    wanted = [artifact("app/out"), artifact("app/build"), artifact("logs/artifacts")]
    assert pack_artifacts(shell, wanted, 60.0, 10**6, 15.0) is None  # type: ignore[arg-type]
    assert shell.ran == 2


class Bounded(Shell):
    """Each program of a command may compute for two seconds."""

    def shell(self, command: str, timeout_s: float, max_output: int, wall_timeout_s: float) -> Execution:
        return super().shell(f"ulimit -t 2; {command}", timeout_s, max_output, wall_timeout_s)


@pytest.mark.parametrize("pattern", ["node_modules", "*.pyc", "cache/*.o"])
def test_nested_folders_take_no_longer_to_pack_for_what_is_excluded(workspace: Path, pattern: str) -> None:
    folder = workspace / "app/out"
    for _ in range(500):
        folder = folder / "d"
        folder.mkdir()
    packed = pack_artifacts(Bounded(workspace), [artifact("app/out", pattern)], 60.0, 10**6, 15.0)  # type: ignore[arg-type]
    assert packed is not None
    assert max(name.count("/d") for name in names(packed[0]["archive"])) == 500


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("build", {".", "./a.txt"}),
        ("*.txt", {".", "./build"}),
        ("build/*", {".", "./a.txt", "./build"}),
        ("./a.txt", {".", "./build", "./build/b.txt"}),
        ("b*d", {".", "./a.txt"}),
        ("[ab]*", {"."}),
        ("a", {".", "./a.txt", "./build", "./build/b.txt"}),
    ],
)
def test_patterns_mean_what_they_mean_to_tar(workspace: Path, pattern: str, left: set[str]) -> None:
    packed = pack_artifacts(Shell(workspace), [artifact("app/out", pattern)], 20.0, 10**6, 15.0)  # type: ignore[arg-type]
    assert packed is not None
    assert names(packed[0]["archive"]) == left
    by_tar = ["tar", "-c", f"--exclude={pattern}", "-C", str(workspace / "app/out"), "-f", "-", "."]
    with tarfile.open(fileobj=io.BytesIO(subprocess.run(by_tar, capture_output=True).stdout)) as opened:
        assert set(opened.getnames()) == left
