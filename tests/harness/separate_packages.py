"""Packages that single tests need, each installed beside the environment by ``make test-packages-NAME``.

torchao: for moments in 8 bits. The environment for CPUs is without it: transformers would import it in every
process, where it warns of kernels for GPUs that do not load.

atif: the models of ATIF, with which exported documents are read. No part of the product imports it.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "var" / "test-packages"
"""The folder with a folder for each of them, into which ``make test-packages`` installs."""


def need_torchao():
    """Make torchao importable, in this process from now on, or skip the test."""
    _need("torchao")


def need_atif():
    """Make atif importable, in this process from now on, or skip the test."""
    _need("atif")


def _need(package):
    if find_spec(package) is not None:
        return
    folder = PACKAGES / package
    if not (folder / package).is_dir():
        why = f"{package} is not installed: make test-packages-{package}"
        if os.environ.get(f"CI_REQUIRE_{package.upper()}") == "1":
            pytest.fail(why)
        pytest.skip(why)
    sys.path.append(str(folder))
