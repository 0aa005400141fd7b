"""The survey and the generation on a busy machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_service.environments.swe_mutants.setup.grader import StarvedTestsError
from sandbox_service.environments.swe_mutants.setup.survey import Outcomes, run_patiently, survey

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


TESTS = """
import pytest

NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

@pytest.mark.parametrize(("name", "value"), [(name, [name]) for name in set(NAMES)])
def test_in_the_order_of_a_set(name, value):
    assert value == [name]

@pytest.mark.parametrize("name", NAMES)
def test_in_the_order_of_a_tuple(name):
    assert name

def test_first_of_a_set():
    assert list(set(NAMES))[0] == FIRST
"""


def test_tests_whose_ids_or_outcomes_depend_on_the_order_of_sets_are_left_out(tmp_path: Path) -> None:
    visible, hidden = tmp_path / "visible", tmp_path / "hidden"
    (visible / "demo").mkdir(parents=True)
    (visible / "demo" / "__init__.py").write_text("")
    hidden.mkdir()
    (hidden / "test_sets.py").write_text("FIRST = 'one'\n" + TESTS)
    found = set(survey(visible, hidden, ["demo"], tmp_path / "scratch").seconds)
    in_order = {each for each in found if "of_a_tuple" in each}
    assert len(in_order) == 10
    # An id that is the same with both seeds may be left by chance.
    assert len(found - in_order) < 10
