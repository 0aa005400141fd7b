"""Adding an environment is one folder: the vault is small, and the checks of this suite run on it."""

from __future__ import annotations

from pathlib import Path

from .conftest import SUBJECTS

VAULT = Path(__file__).parent / "vault"


def test_the_example_is_less_than_a_hundred_lines_in_a_folder_of_its_own() -> None:
    sources = sorted(VAULT.glob("*.py"))
    assert [path.name for path in sources] == ["catalog.py", "world.py"]
    assert sum(len(path.read_text().splitlines()) for path in sources) < 100


def test_the_example_passes_through_every_check_on_every_kind_of_sandbox() -> None:
    assert {case.values[0] for case in SUBJECTS} >= {("vault", "process"), ("vault", "docker")}
