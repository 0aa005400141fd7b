"""`make` finds a supported interpreter by any of its names, for each of its virtual environments."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKER = """#!/bin/sh
case "$*" in
*" venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
*" install "*) printf '#!/bin/sh\\necho uv "$@"\\n' >.venv/bin/uv && chmod +x .venv/bin/uv ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "scripts/python.sh", tmp_path / "scripts")
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("sh", "make", "mkdir", "cp", "chmod"):
        (commands / name).symlink_to(shutil.which(name))
    return tmp_path


def make(target, checkout):
    words = ["make", "--silent", target]
    environment = {"PATH": str(checkout / "commands")}
    return subprocess.run(words, cwd=checkout, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3"])
def test_wheels_are_built_with_whichever_supported_interpreter_there_is(checkout, name) -> None:
    (checkout / "commands" / name).write_text(MAKER)
    (checkout / "commands" / name).chmod(0o755)
    done = make("dist", checkout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rpartition(" ")[2] for line in done.stdout.splitlines()] == ["clients", "."]
    assert done.stdout.count("--python .venv/bin/python ") == 2


def test_without_a_supported_interpreter_the_error_says_how_to_name_one(checkout) -> None:
    done = make("dist", checkout)
    assert done.returncode != 0
    assert "Python 3.11 or 3.12 is needed; set PYTHON=/path/to/python3.11" in done.stderr
