"""``.ci/run`` with stubs for what it calls: what it stops, leaves and reports."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SERVER = """
echo "$NAME $1" >>"$RECORD"
case $1 in
start) touch "$RECORD.$NAME"; echo "address of $NAME" ;;
url | status) [ -e "$RECORD.$NAME" ] ;;
stop) rm "$RECORD.$NAME" ;;
esac
"""
"""A server that runs while there is a file."""
MAKE = """#!/bin/sh
case "$*" in test) env >"$RECORD.env" ;; *lock-check*) echo "a fast check fails"; exit 1 ;; esac
"""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record"


@pytest.fixture
def run(tmp_path: Path, record: Path):
    """Run the script; return what it did, with the status that ``changed_environments`` has."""
    scripts, programs, temporary = tmp_path / "scripts", tmp_path / "bin", tmp_path / "tmp"
    for folder in (scripts, programs, temporary, tmp_path / ".ci"):
        folder.mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    for name in ("runsc", "chromium", "promtool", "redis"):
        (scripts / f"{name}.sh").touch()
    for name in ("engine", "postgres"):
        (scripts / f"{name}.sh").write_text(f"NAME={name}\n{SERVER}")
    (programs / "make").write_text(MAKE)
    (programs / "make").chmod(0o755)

    def run(status: int = 0) -> subprocess.CompletedProcess[str]:
        (scripts / "changed_environments.py").write_text(f"print('code'); raise SystemExit({status})")
        environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHON": "python3",
            "RECORD": str(record),
            "TMPDIR": str(temporary),
            "CI_BASE": "trunk",
        }
        return subprocess.run(
            ["bash", str(tmp_path / ".ci/run")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def test_what_it_starts_is_stopped_at_its_end(run, record: Path) -> None:
    run()
    assert record.read_text().splitlines() == [
        "engine status",
        "engine start",
        "postgres url",
        "postgres start",
        "postgres url",
        "postgres stop",
        "engine stop",
    ]


def test_what_ran_before_it_goes_on(run, record: Path) -> None:
    running = [record.with_name(f"record.{name}") for name in ("engine", "postgres")]
    for file in running:
        file.touch()
    run()
    assert "stop" not in record.read_text()
    assert [file for file in running if not file.exists()] == []


def test_the_output_of_a_check_that_fails_is_printed_and_no_file_of_it_is_left(run, tmp_path: Path) -> None:
    done = run()
    assert done.returncode == 1
    assert "a fast check fails" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(("status", "warned"), [(0, False), (1, True)])
def test_a_failed_comparison_is_reported_at_the_end(run, record: Path, status: int, warned: bool) -> None:
    said = run(status).stdout
    assert ("WARNING: nothing was compared with trunk" in said.partition("== tests")[2]) is warned
    variables = record.with_name("record.env").read_text().splitlines()
    assert {"CONFORMANCE_ENVIRONMENTS=code", "CONFORMANCE_PARTS=code"} <= {*variables}


def test_tests_that_need_what_is_installed_or_started_do_not_skip(run, record: Path) -> None:
    run()
    variables = record.with_name("record.env").read_text().splitlines()
    required = {name for name, _, value in (line.partition("=") for line in variables) if value == "1"}
    assert {
        "CI_REQUIRE_VLLM",
        "CI_REQUIRE_DOCKER",
        "CI_REQUIRE_POSTGRES",
        "CI_REQUIRE_ENVIRONMENTS",
    } <= required
