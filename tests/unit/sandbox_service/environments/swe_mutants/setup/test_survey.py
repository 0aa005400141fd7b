"""The survey and the generation on a busy machine."""

from __future__ import annotations

import pytest

from sandbox_service.environments.swe_mutants.setup.grader import StarvedTestsError
from sandbox_service.environments.swe_mutants.setup.survey import Outcomes, run_patiently

PASSED: tuple[Outcomes, bool] = ({"test_a.py::test_a": ("passed", "")}, True)


def test_starved_tests_are_run_again_with_more_time() -> None:
    given: list[float] = []

    def run(wall_s: float) -> tuple[Outcomes, bool]:
        given.append(wall_s)
        if len(given) < 3:
            raise StarvedTestsError
        return PASSED

    assert run_patiently(run) == PASSED
    assert given[0] < given[1] < given[2]


def test_tests_that_stay_starved_are_an_error() -> None:
    def run(wall_s: float) -> tuple[Outcomes, bool]:
        raise StarvedTestsError(f"not within {wall_s} s")

    with pytest.raises(StarvedTestsError):
        run_patiently(run)
