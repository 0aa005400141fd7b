"""The output of the two commands where only the core is installed."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"typer", "rich"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from service_cli import command_line
"""


@pytest.mark.parametrize("extra", ["service", "trainer"])
def test_a_core_install_says_which_extra_to_install(extra: str):
    code = f"{WITHOUT}command_line.{extra}()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert f"pip install 'training-sandbox[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("extra", ["service", "trainer"])
def test_with_its_extra_a_command_runs(extra: str):
    code = f"from service_cli import command_line; command_line.{extra}()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
