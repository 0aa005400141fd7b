"""Pack the modules that a cell may import into one file, which the agent's session gets when it needs it.

AppWorld gives its notebooks pendulum, a calendar of its own and a frozen clock. The agent's process can
reach none of the world's packages, so it gets copies of these few, as source and as code of this
interpreter.
"""

from __future__ import annotations

import py_compile
import tempfile
import zipfile
from pathlib import Path

_WHOLE = ("dateutil", "freezegun", "pendulum", "tzdata", "yaml")
_SINGLE = ("appworld/common/copy.py", "appworld/common/datetime.py", "six.py", "typing_extensions.py")
_EMPTY = ("appworld/__init__.py", "appworld/common/__init__.py")


def pack(packages: Path, target: Path) -> None:
    """Write the archive."""
    found = [path for name in _WHOLE for path in sorted((packages / name).rglob("*")) if _wanted(path)]
    found += [packages / name for name in _SINGLE if (packages / name).is_file()]
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
        tempfile.TemporaryDirectory() as draft,
    ):
        for path in found:
            name = path.relative_to(packages).as_posix()
            archive.write(path, name)
            if path.suffix == ".py":
                archive.write(_compiled(path, Path(draft)), f"{name}c")
        for name in _EMPTY:
            archive.writestr(name, "")


def _wanted(path: Path) -> bool:
    return path.is_file() and path.suffix not in (".pyc", ".pyi", ".so", ".pyd")


def _compiled(path: Path, draft: Path) -> Path:
    compiled = py_compile.compile(
        str(path),
        str(draft / "module.pyc"),
        path.name,
        doraise=True,
        # Checked against nothing: times in archives are rounded.
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    return Path(str(compiled))
