"""A run file that a command is given; files of tests with other needs have one of their own."""

import pytest


@pytest.fixture
def run_file(tmp_path):
    file = tmp_path / "run.toml"
    root = tmp_path / "runs"
    file.write_text(f'name = "mine"\nroot = "{root}"\nsteps = 3\n[evaluation]\nsplits = ["test"]\n')
    return file
