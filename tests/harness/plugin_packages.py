"""Packages with entry points, installed into a folder as pip would leave them."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_NUMBERS = itertools.count()

API = "TRAINING_SANDBOX_API = 1\n"


class PluginPackages:
    """A folder of installed packages that is on the import path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        name: str,
        files: Mapping[str, str],
        entry_points: Mapping[str, Mapping[str, str]],
        version: str = "1.0",
    ) -> None:
        """Write the modules of a package, and its metadata with entry points by group."""
        self.write(files)
        metadata = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = [
            "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())])
            for group, entries in entry_points.items()
        ]
        (metadata / "entry_points.txt").write_text("\n\n".join(groups) + "\n")

    def write(self, files: Mapping[str, str]) -> None:
        """Write modules that no package's metadata names."""
        for path, content in files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(content))


@contextmanager
def plugin_packages(tmp_path: Path) -> Iterator[PluginPackages]:
    """A folder of packages; what was imported from it is forgotten afterwards."""
    folder = tmp_path / f"packages-{next(_NUMBERS)}"
    folder.mkdir()
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield PluginPackages(folder)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(folder)):
                del sys.modules[name]
        sys.path_importer_cache.pop(str(folder), None)
