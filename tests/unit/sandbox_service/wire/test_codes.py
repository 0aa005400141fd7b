"""Error codes of boxes, which cannot import the contract."""

import ast
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.wire.codes import BoxErrorCode

SERVICE = Path(__file__).parents[4] / "sandbox_service"
IN_BOXES = sorted(
    path
    for folder in ("runner", "environments")
    for path in (SERVICE / folder).rglob("*.py")
    if "setup" not in path.parts
)


@pytest.mark.parametrize("code", BoxErrorCode)
def test_a_code_of_a_box_is_a_code_of_the_contract(code: BoxErrorCode) -> None:
    assert ErrorCode[code.name].value == code.value


def test_what_runs_in_a_box_names_its_codes_and_writes_none_as_a_string() -> None:
    values = {code.value for code in BoxErrorCode}
    written = [
        f"{path.relative_to(SERVICE)}:{node.lineno}: {node.value}"
        for path in IN_BOXES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in values
    ]
    assert not written
