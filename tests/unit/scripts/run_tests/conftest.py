"""Runs of made-up tests, as ``make test`` starts them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SCRIPT = """
import sys
from pathlib import Path
from scripts.run_tests.__main__ import main
sys.exit(main(["--no-environments", "-p", "no:cacheprovider", *sys.argv[1:]], Path.cwd()))
"""


@pytest.fixture
def start(tmp_path):
    """Write test files, and start a process that runs them as ``make test`` does, with the words."""

    def start(files, *words, script=SCRIPT, clean_up_s=120.0, **options):
        (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['ray', 'vllm']\n")
        for name, text in files.items():
            path = tmp_path / "tests" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        own = tmp_path / "own"  # folders of groups that fail stay
        own.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-c", script, *words],
            cwd=tmp_path,
            # To load all plugins that are installed takes most of a start.
            env={
                "PYTHONPATH": str(ROOT),
                "PATH": "/usr/bin:/bin",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_PLUGINS": "pytest_timeout",
                "TMPDIR": str(own),
                "TEST_CLEAN_UP_S": str(clean_up_s),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


@pytest.fixture
def project(start):
    """Write test files, and run them to the end."""

    def run(files, *words, **options):
        with start(files, *words, **options) as process:
            stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    return run
