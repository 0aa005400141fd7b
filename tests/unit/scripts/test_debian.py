"""The script that installs Debian packages, run with a fake apt-get that records its arguments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts/debian.sh"
_APT = """#!/bin/sh
echo "$(stat -c %a "$TMPDIR") $TMPDIR $*" >>"$RECORD"
case "$*" in *" install "*) [ -e "$REFRESHED" ] ;; *update*) touch "$REFRESHED" ;; esac
"""
_SUDO = '#!/bin/sh\nexec "$@"\n'


@pytest.fixture
def install(tmp_path: Path):
    """Install a package by the fake, which knows it once the lists have been fetched; return its calls."""
    for name, text in (("apt-get", _APT), ("sudo", _SUDO)):
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
    record, refreshed = tmp_path / "record", tmp_path / "refreshed"
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RECORD": str(record),
        "REFRESHED": str(refreshed),
    }

    def run(*, known: bool) -> list[list[str]]:
        if known:
            refreshed.touch()
        command = ["sh", "-euc", f". {SCRIPT}; install_packages some-package"]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=30)
        return [line.split() for line in record.read_text().splitlines()]

    return run


def test_apt_gets_a_folder_that_its_own_user_may_write_to_and_that_is_removed(install) -> None:
    calls = install(known=True)
    assert [mode for mode, *_ in calls] == ["1777"]
    assert not Path(calls[0][1]).exists()


def test_lists_are_fetched_only_for_a_package_that_is_not_known(install) -> None:
    assert [("update" in call, "install" in call) for call in install(known=True)] == [(False, True)]


def test_a_package_that_is_not_known_is_installed_once_the_lists_are_there(install) -> None:
    verbs = ["update" if "update" in call else "install" for call in install(known=False)]
    assert verbs == ["install", "update", "install"]
