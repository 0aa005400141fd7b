"""With CI_REQUIRE_VLLM=1, an installation without vLLM fails a test, and does not only skip some 20 files."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.vllm]
WITHOUT_VLLM = """
import sys
import pytest
sys.modules["vllm"] = None
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1], "-k", "is_installed"]))
"""


@pytest.mark.skipif(os.environ.get("CI_REQUIRE_VLLM") != "1", reason="not required here")
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_vllm_is_installed() -> None:
    importlib.import_module("vllm")


@pytest.mark.parametrize(("required", "status"), [("0", 0), ("1", 1)])
def test_ci_fails_without_vllm(required: str, status: int) -> None:
    command = [sys.executable, "-c", WITHOUT_VLLM, str(Path(__file__))]
    environment = {**os.environ, "CI_REQUIRE_VLLM": required}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, done.stdout
