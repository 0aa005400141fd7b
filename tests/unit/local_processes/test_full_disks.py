"""A command whose output finds no space ends with a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from local_processes.full_disks import explaining_full_disks

PRINTING = """
import sys
from local_processes.full_disks import explaining_full_disks

def explain(sentence):
    print(sentence, file=sys.stderr)
    return 7

with explaining_full_disks(explain):
    print("x" * 100_000)
"""


def test_output_without_space_is_explained_and_ends_the_program() -> None:
    with Path("/dev/full").open("w") as stdout:
        ended = subprocess.run(
            [sys.executable, "-c", PRINTING], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (7, "cannot write the output: No space left on device\n")


def test_other_errors_pass() -> None:
    with pytest.raises(FileNotFoundError), explaining_full_disks(lambda _: 7):
        raise FileNotFoundError
