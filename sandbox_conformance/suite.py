"""Run the checks for some environments in this process, with pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import fixtures

if TYPE_CHECKING:
    from .fixtures import Case

_HERE = Path(__file__).parent
_SETTINGS = _HERE / "suite.toml"


class _Parameters:
    """A pytest plugin that gives each check its cases."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "served" in metafunc.fixturenames:
            cases = [pytest.param(case, id=f"{case.name}-{case.kind}") for case in self._cases]
            metafunc.parametrize("served", cases, indirect=True, scope="session")


class NoChecksError(LookupError):
    """The words choose none of the checks."""


def check(cases: Sequence[Case], words: Sequence[str] = ()) -> bool:
    """Run all checks for the cases, print what fails, and return whether none did.

    ``words`` are further arguments of pytest, such as ``-k`` and a part of a check's name. Raises
    NoChecksError if they choose no check.
    """
    arguments = [
        str(_HERE / "checks"),
        "-c",
        str(_SETTINGS),
        "--rootdir",
        str(_HERE),
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        *words,
    ]
    status = pytest.main(arguments, plugins=[fixtures, _Parameters(cases)])
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise NoChecksError(" ".join(words))
    return status == pytest.ExitCode.OK
