"""Adding an environment is one folder: the vault is small, the suite runs on it, and its page is true."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from .conftest import SUBJECTS

VAULT = Path(__file__).parent / "vault"
SOURCES = {path.relative_to(VAULT).as_posix(): path.read_text() for path in sorted(VAULT.rglob("*.py"))}
PAGE = (Path(__file__).parents[3] / "docs" / "environments" / "adding.md").read_text()
UNFENCED = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
"""Fenced code is that of ``envs new``, which a test of the command compares."""
BLOCKS = [block for block in re.findall(r"(?:^    .*\n)+", UNFENCED, re.MULTILINE) if " passed" not in block]


def test_the_example_is_less_than_a_hundred_lines_in_a_folder_of_its_own() -> None:
    assert list(SOURCES) == ["box/world.py", "service/catalog.py"]
    assert sum(len(source.splitlines()) for source in SOURCES.values()) < 100


def test_every_check_runs_on_the_example() -> None:
    assert {case.values[0] for case in SUBJECTS} >= {("vault", "process"), ("vault", "docker")}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_page_quotes_the_example_as_it_is(block: str) -> None:
    quoted = textwrap.dedent(block)
    assert any(
        quoted in textwrap.dedent(part) for source in SOURCES.values() for part in parts(source, block)
    )


def parts(source: str, block: str) -> list[str]:
    """The source's runs of as many lines as the block has."""
    lines, length = source.splitlines(keepends=True), len(block.splitlines())
    return ["".join(lines[start : start + length]) for start in range(len(lines))]
