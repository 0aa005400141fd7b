"""The packages of an environment that another user has set up."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox_service.environments.provisions import Recipe


@contextmanager
def set_up_by_another_user(recipe: Recipe) -> Iterator[Path]:
    """Yield a folder of packages that each user can read but for that of the recipe."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        folder = recipe.folder(root)
        folder.mkdir(mode=0o000)
        yield root
        folder.chmod(0o700)
