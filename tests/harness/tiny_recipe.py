"""A recipe that needs no package index: one wheel of ours, and a preparation that uses it."""

import zipfile
from pathlib import Path

from sandbox_service.environments.digests import digest
from sandbox_service.environments.provisions import Recipe

PREPARE = """
import sys
from pathlib import Path
import tinylore
print("writing", tinylore.NAME)
(Path(sys.argv[2]) / "secret.txt").write_text("made by " + tinylore.NAME)
"""


def tiny_recipe(folder: Path, prepare: str = PREPARE, name: str = "provided") -> Recipe:
    source = folder / "setup"
    source.mkdir()
    wheel = folder / "tinylore-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tinylore.py", "NAME = 'tinylore'\n")
        about = "tinylore-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tinylore\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    (source / "packages.txt").write_text(f"tinylore @ file://{wheel}\n")
    (source / "prepare.py").write_text(prepare)
    return Recipe(name, source, digest({"prepare.py": prepare.encode()}))
