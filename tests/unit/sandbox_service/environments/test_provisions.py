"""A recipe is named after everything that its preparation reads and runs, and after nothing else."""

from pathlib import Path

import pytest

from sandbox_service.environments.provisions import recipe_in

FILES = {
    "setup/packages.txt": "tinylore==1.0",
    "setup/prepare.py": "from box.generators import make",
    "data/people.toml": "",
    "box/generators.py": "from .judges import JUDGES",
    "box/judges.py": "JUDGES = {}",
    "box/world.py": "",
    "service/catalog.py": "",
}


def digest_of(folder: Path) -> str:
    recipe = recipe_in("provided", folder)
    assert recipe is not None
    return recipe.digest


@pytest.mark.parametrize("changed", FILES)
def test_a_recipe_changes_with_what_its_preparation_reads(tmp_path: Path, changed: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = digest_of(tmp_path)
    (tmp_path / changed).write_text(f"{FILES[changed]}  # changed")
    read = changed not in {"box/world.py", "service/catalog.py"}
    assert (digest_of(tmp_path) != before) == read
