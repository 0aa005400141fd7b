"""Packages of single tests: each is installed and found alone, whatever becomes of the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_UV = """#!/bin/sh
for word; do case $last in --target) target=$word;; esac; last=$word; done
case "$*" in *" $REFUSED"*) exit 1;; esac
name=${target##*/}
mkdir -p "$target/$name"
"""
_MAKE = '#!/bin/sh\n[ "$1" != "test-packages-$REFUSED" ]\n'
_NEED = """
import sys
from pathlib import Path
from tests.harness import separate_packages
separate_packages.PACKAGES = Path(sys.argv[1])
before = list(sys.path)
getattr(separate_packages, f"need_{sys.argv[2]}")()
print(*(Path(each).name for each in sys.path if each not in before))
"""


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def run(*command, **environment):
    whole = {**os.environ, **environment}
    return subprocess.run(
        command, cwd=ROOT, env=whole, check=False, capture_output=True, text=True, timeout=60
    )


def installed(tmp_path, refused):
    """Make the target with a uv that refuses one package; return make's status and the folders."""
    program(tmp_path / "uv", _UV)
    stamp, folder = tmp_path / "stamp", tmp_path / "packages"
    stamp.touch()
    (folder / "torchao/float8").mkdir(parents=True)  # of the layout in which they shared a folder
    words = ("test-packages", f"BIN={tmp_path}", f"STAMP={stamp}", f"TEST_PACKAGES_FOLDER={folder}")
    made = run("make", "-o", str(stamp), *words, REFUSED=refused)
    return made.returncode, sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))


@pytest.mark.parametrize(
    ("refused", "folders"),
    [
        ("neither", ["atif/atif", "torchao/torchao"]),
        ("torchao", ["atif/atif"]),
        ("atif", ["torchao/torchao"]),
    ],
)
def test_each_package_has_a_folder_and_is_installed_though_another_cannot_be(tmp_path, refused, folders):
    status, found = installed(tmp_path, refused)
    assert (status == 0, found) == (refused == "neither", folders)


@pytest.mark.parametrize(
    ("refused", "required"), [("neither", ["ATIF", "TORCHAO"]), ("torchao", ["ATIF"]), ("atif", ["TORCHAO"])]
)
def test_ci_requires_the_packages_that_could_be_installed(tmp_path, refused, required):
    program(tmp_path / "make", _MAKE)
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if "make test-packages" in line]
    script = "\n".join(["set -eu", "unset CI_REQUIRE_TORCHAO CI_REQUIRE_ATIF", *lines, "env"])
    path = f"{tmp_path}:{os.environ['PATH']}"
    shown = run("bash", "-c", script, PATH=path, REFUSED=refused).stdout.splitlines()
    assert sorted(f"CI_REQUIRE_{name}=1" for name in required) == sorted(
        line for line in shown if line.startswith(("CI_REQUIRE_TORCHAO", "CI_REQUIRE_ATIF"))
    )


def test_a_test_gets_the_package_that_it_asks_for_and_no_other(tmp_path):
    for name in ("atif", "torchao"):
        (tmp_path / name / name).mkdir(parents=True)
    assert run(sys.executable, "-c", _NEED, str(tmp_path), "atif").stdout.split() == ["atif"]
