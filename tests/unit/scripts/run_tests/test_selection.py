"""The words that name tests, and those that are values of pytest's options."""

import pytest

from scripts.run_tests.selection import split_targets


@pytest.mark.parametrize(
    ("words", "targets", "others"),
    [
        ("", "tests", ""),
        ("-x", "tests", "-x"),
        ("tests/unit -x", "tests/unit", "-x"),
        ("-x tests/unit", "tests/unit", "-x"),
        ("tests/unit/test_a.py::test_right", "tests/unit/test_a.py::test_right", ""),
        ("-k docker", "tests", "-k docker"),
        ("-m docker tests/unit", "tests/unit", "-m docker"),
        ("-k tests", "tests", "-k tests"),
        ("--ignore tests/unit", "tests", "--ignore tests/unit"),
        (
            "--deselect tests/unit/test_a.py::test_right",
            "tests",
            "--deselect tests/unit/test_a.py::test_right",
        ),
        ("--ignore=tests/unit tests", "tests", "--ignore=tests/unit"),
    ],
)
def test_values_of_options_name_no_tests(tmp_path, words, targets, others):
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/unit/test_a.py").touch()
    (tmp_path / "docker").mkdir()
    assert split_targets(words.split(), tmp_path) == (targets.split(), others.split())
