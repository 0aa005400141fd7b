import subprocess
import sys
from pathlib import Path

from tests.harness.waiting import wait_until


def test_a_process_of_the_model_ends_with_a_parent_that_dies_without_a_word():
    parent = subprocess.run(
        [sys.executable, "-m", "tests.harness.model_process"], capture_output=True, text=True, check=False
    )
    child = Path("/proc") / parent.stdout
    assert parent.stdout.isdecimal(), parent.stderr
    wait_until(lambda: not child.exists() or "Z" in (child / "stat").read_text().split()[2])
