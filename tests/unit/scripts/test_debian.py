"""The script that installs Debian packages, run with a fake apt-get that records its arguments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts/debian.sh"
_APT = """#!/bin/sh
echo "$(stat -c %a "$TMPDIR") $TMPDIR $*" >>"$RECORD"
[ ! -e "$POLICY_RC_D" ] || { "$POLICY_RC_D"; echo "$?" >>"$RECORD.policy"; }
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
        "POLICY_RC_D": str(tmp_path / "policy-rc.d"),
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


def policies(tmp_path: Path) -> list[str]:
    return (tmp_path / "record.policy").read_text().split()


def test_a_package_may_not_start_its_service_while_it_is_installed(install, tmp_path: Path) -> None:
    install(known=False)
    assert policies(tmp_path) == ["101", "101"]
    assert not (tmp_path / "policy-rc.d").exists()


def test_the_policy_of_a_script_that_was_killed_is_removed_by_the_next_one(install, tmp_path: Path) -> None:
    command = f". {SCRIPT}; deny_services"
    environment = {
        **os.environ,
        "POLICY_RC_D": str(tmp_path / "policy-rc.d"),
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }
    subprocess.run(["sh", "-euc", command], env=environment, check=True, timeout=30)
    assert (tmp_path / "policy-rc.d").exists()
    install(known=True)
    assert not (tmp_path / "policy-rc.d").exists()


def test_the_machines_own_policy_stays(install, tmp_path: Path) -> None:
    own = tmp_path / "policy-rc.d"
    own.write_text("#!/bin/sh\nexit 104\n")
    own.chmod(0o755)
    install(known=True)
    assert policies(tmp_path) == ["104"]
    assert own.read_text() == "#!/bin/sh\nexit 104\n"


_ID = "#!/bin/sh\necho 1000\n"
_SUDO_WITH_RESET = """#!/bin/sh
kept=PATH
case $1 in --preserve-env=*) kept=$kept,${1#*=}; shift ;; esac
exec python3 -c 'import os, sys
names = sys.argv[1].split(",")
os.execvpe(sys.argv[2], sys.argv[2:], {n: os.environ[n] for n in names if n in os.environ})' "$kept" "$@"
"""


@pytest.mark.parametrize("variables", [{}, {"https_proxy": "http://proxy.test:3128", "no_proxy": "here"}])
def test_what_runs_as_root_is_given_the_proxy_that_sudo_drops(tmp_path: Path, variables) -> None:
    for name, text in (("id", _ID), ("sudo", _SUDO_WITH_RESET)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OTHER": "dropped", **variables}
    command = ["sh", "-euc", f". {SCRIPT}; as_root env"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=30)
    given = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: given.get(name) for name in variables} == variables
    assert "OTHER" not in given
