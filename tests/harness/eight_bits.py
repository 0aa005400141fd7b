"""torchao for the tests of moments in 8 bits.

The environment for CPUs is without it: transformers would import it in every process, where it warns of
kernels for GPUs that do not load.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "var" / "test-packages"
"""The folder into which ``make test-packages`` installs it."""


def need_torchao():
    """Make torchao importable, in this process from now on, or skip the test."""
    if find_spec("torchao") is not None:
        return
    if not (PACKAGES / "torchao").is_dir():
        why = "torchao is not installed: make test-packages"
        if os.environ.get("CI_REQUIRE_TORCHAO") == "1":
            pytest.fail(why)
        pytest.skip(why)
    sys.path.append(str(PACKAGES))
