"""The oldest Python that the client supports: what declares it and what checks it agree."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode, FailureClass

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "clients/pyproject.toml").read_text())["project"]
OLDEST = (3, 10)
MODULES = sorted((ROOT / "clients").glob("sandbox_*/**/*.py"))


def test_the_distribution_ruff_and_mypy_name_the_same_version() -> None:
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    types = re.search(r"mypy --python-version (\S+) -p sandbox_client", (ROOT / "Makefile").read_text())
    assert PROJECT["requires-python"] == ">=3.10"
    assert ruff["per-file-target-version"] == {"clients/**": "py310"}
    assert types is not None
    assert types[1] == "3.10"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "clients").as_posix())
def test_a_module_has_the_syntax_of_the_oldest_python(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=OLDEST)


@pytest.mark.parametrize("member", [*ErrorCode, *FailureClass])
def test_the_text_of_a_code_is_its_value(member: ErrorCode | FailureClass) -> None:
    assert f"{member}" == str(member) == "%s" % member == member.value == member  # noqa: UP031
