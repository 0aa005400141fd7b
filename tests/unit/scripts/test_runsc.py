"""``scripts/runsc.sh`` where the package cannot be fetched; nothing is installed."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MIRROR = "http://127.0.0.1:1/debian/pool"
BY_HAND = "install gVisor by hand: https://gvisor.dev/docs/user_guide/install/"
PROGRAMS = {
    "runsc": "exit 127",
    "dpkg": "echo amd64",
    "sudo": '"$@"',
    "apt-get": f"""case "$*" in *--print-uris*) echo "'{MIRROR}/runsc_1_amd64.deb' runsc.deb 1" ;; esac""",
}


@pytest.fixture
def runsc(tmp_path):
    """Run the script on a distribution, with stubs of programs."""

    def run(distribution, **programs):
        (tmp_path / "os-release").write_text(f"NAME=Any\n{distribution}\n")
        for name, text in {**PROGRAMS, **programs}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OS_RELEASE": str(tmp_path / "os-release")}
        command = ["sh", str(ROOT / "scripts/runsc.sh")]
        environment = {**os.environ, **variables, "POLICY_RC_D": str(tmp_path / "policy")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_a_mirror_without_the_package_is_an_error_that_says_what_to_do(runsc) -> None:
    done = runsc("ID=debian")
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert f"{MIRROR}/runsc_0.0~20240729.0-4+b7_amd64.deb was not fetched; {BY_HAND}\n" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("distribution", ["ID=ubuntu\nID_LIKE=debian", 'ID="linuxmint"'])
def test_other_distributions_get_the_package_from_debian(runsc, distribution: str) -> None:
    done = runsc(distribution, **{"python3": "exit 1", "apt-get": "echo asked >&2"})
    assert done.returncode == 1
    assert "http://deb.debian.org/debian/pool/main/g/golang-gvisor-gvisor/runsc_0.0~2024" in done.stderr
    assert "asked" not in done.stderr
