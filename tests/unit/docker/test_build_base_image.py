"""``docker/build_base_image.sh`` with stubs of debootstrap and of the programs in its tree."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).parents[3] / "docker/build_base_image.sh"
DEBOOTSTRAP = """#!/bin/sh
if [ -n "$HANGS" ]; then sleep 600 & echo $! >"$RECORD.pid"; mv "$RECORD.pid" "$RECORD"; wait; fi
mkdir -p "$4/etc/apt"
echo "deb $5 $3 main" >"$4/etc/apt/sources.list"
"""
CHROOT = """#!/bin/sh
shift
echo "$*" >>"$RECORD"
[ -z "$UNREACHABLE" ]
"""


@pytest.fixture
def start(tmp_path: Path):
    """Start the script, with its settings."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("debootstrap", DEBOOTSTRAP), ("chroot", CHROOT), ("id", "#!/bin/sh\necho 0\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def start(**settings: str) -> subprocess.Popen[str]:
        made = {"RECORD": str(tmp_path / "record"), "HANGS": "", "UNREACHABLE": "", "SANDBOX_BASE_TREE": ""}
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **made, **settings}
        words = ["sh", str(SCRIPT), str(tmp_path / "out" / "base.tar")]
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)

    return start


def sources(tmp_path: Path) -> list[str]:
    with tarfile.open(tmp_path / "out" / "base.tar") as archive:
        listed = archive.extractfile("./etc/apt/sources.list")
        assert listed is not None
        return listed.read().decode().splitlines()


def test_the_base_has_security_updates_and_installs_later_packages_with_them(start, tmp_path: Path) -> None:
    said, _ = start(DEBIAN_MIRROR="http://mirror.test/debian").communicate(timeout=60)
    assert said.endswith("base.tar\n")
    assert sources(tmp_path) == [
        "deb http://mirror.test/debian bookworm main",
        "deb http://mirror.test/debian bookworm-updates main",
        "deb http://mirror.test/debian-security bookworm-security main",
    ]
    assert [line.split()[-1] for line in (tmp_path / "record").read_text().splitlines()] == [
        "update",
        "upgrade",
    ]


def test_a_base_without_security_updates_is_made_and_says_so(start, tmp_path: Path) -> None:
    settings = {"UNREACHABLE": "1", "DEBIAN_MIRROR": "http://mirror.test/debian"}
    said, _ = start(**settings).communicate(timeout=60)
    assert "base.tar, WITHOUT security updates: http://mirror.test/debian-security could not" in said
    assert sources(tmp_path) == ["deb http://mirror.test/debian bookworm main"]


def test_an_interrupted_build_ends_with_all_that_it_has_started(start, tmp_path: Path) -> None:
    with start(HANGS="1") as process:
        record = tmp_path / "record"
        while not record.exists():
            assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=60) == 1
    pid = int(record.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert list((tmp_path / "out").iterdir()) == []
