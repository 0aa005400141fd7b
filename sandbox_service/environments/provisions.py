"""Find the packages and data of environments: the folders that belong to their recipes.

An environment with a ``setup`` folder needs more than our code: ``setup/packages.txt`` pins its packages, and
``setup/prepare.py``, where there is one, makes its data, also from authored content in ``data``. The result
is a folder named after a digest over ``setup``, ``data`` and the modules of ``box`` that the preparation
imports, so that a changed recipe is another folder:

<root>/<name>-<digest>/packages    on the import path of the environment's processes
<root>/<name>-<digest>/data        read-only data
<root>/<name>.operator             path of the operator's own data, as ``envs setup --data`` noted it
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .base import Provisions
from .digests import digest
from .preparation_modules import preparation_modules

GROUP = 9999
"""Group of the environments' processes in every box; agents never have it, and no other group may enter."""
SETUP_FOLDER = "setup"
PACKAGES_FILE = "packages.txt"
PREPARE_FILE = "prepare.py"
KEPT_VARIABLE = "ENVIRONMENT_SETUP_KEPT"
"""Variable of the preparation: a folder that it may make for finished parts. It survives a failure, so that
the next attempt can continue, and is removed after a success."""
DATA_FOLDER = "data"
"""Beside ``setup``: authored content, which the preparation may read."""
OPTIONAL_FILE = "OPTIONAL"
"""Holds the reason why an environment is not set up with all others."""
_OWN_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Recipe:
    """The ``setup`` folder of one environment."""

    name: str
    source: Path
    digest: str
    why_optional: str | None = None
    """The reason why it is set up only when it is asked for by name."""

    def folder(self, root: Path) -> Path:
        """Return the folder that its result goes to."""
        return root / f"{self.name}-{self.digest}"


def cache_root() -> Path:
    """Return the cache folder of this machine: the system's for root, otherwise the user's."""
    if os.geteuid() == 0:
        return Path("/var/cache/training-sandbox")
    cache_home = os.environ.get("XDG_CACHE_HOME")
    return Path(cache_home or Path.home() / ".cache") / "training-sandbox"


def default_root() -> Path:
    """Return the folder of packages and data where no other is configured."""
    return cache_root() / "environments"


@cache
def recipes(environments: Path = _OWN_FOLDER) -> dict[str, Recipe]:
    """Return the environments that have to be set up, by name."""
    found: dict[str, Recipe] = {}
    for folder in sorted(environments.iterdir()):
        recipe = recipe_in(folder.name, folder)
        if recipe is not None:
            found[folder.name] = recipe
    return found


def recipe_in(name: str, folder: Path) -> Recipe | None:
    """Return the recipe of the environment in a folder; None if it needs none."""
    source = folder / SETUP_FOLDER
    if not (source / PACKAGES_FILE).is_file():
        return None
    content = _content(source)
    # A note for people, which changes nothing of the result.
    optional = content.pop(OPTIONAL_FILE, None)
    why = optional.decode().strip() if optional is not None else None
    # What the preparation reads and imports is a part of the recipe: once changed, it gets another folder.
    return Recipe(name, source, digest(content, _content(folder / DATA_FOLDER), _imported(folder)), why)


def _imported(folder: Path) -> dict[str, bytes]:
    """Return the files that the preparation imports from outside of ``setup``, such as a judge of answers."""
    paths = [path.relative_to(folder) for path in preparation_modules(folder).values()]
    return {path.as_posix(): (folder / path).read_bytes() for path in paths if path.parts[0] != SETUP_FOLDER}


def _content(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def operator_note(name: str, root: Path) -> Path:
    """Return the file that remembers where the operator's data is."""
    return root / f"{name}.operator"


def find(name: str, root: Path | None = None, operator_data: Path | None = None) -> Provisions | None:
    """Return what ``envs setup`` made for an environment; None if not run since the recipe changed.

    Raises OSError if this user cannot read it.
    """
    return prepared(recipes()[name], root, operator_data)


def is_readable(folder: Path) -> bool:
    """Return whether this user can use a prepared folder; its maker and the environments' group alone can."""
    return os.access(folder, os.R_OK | os.X_OK)


def prepared(
    recipe: Recipe, root: Path | None = None, operator_data: Path | None = None
) -> Provisions | None:
    """Return what ``envs setup`` made of a recipe; None if not run since the recipe changed.

    Raises OSError if this user cannot read it.
    """
    root = root or default_root()
    folder = recipe.folder(root)
    if not folder.is_dir():
        return None
    if not is_readable(folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    if operator_data is None:
        note = operator_note(recipe.name, root)
        operator_data = Path(note.read_text(encoding="utf-8").strip()) if note.is_file() else None
    return Provisions(folder, recipe.digest, operator_data)
