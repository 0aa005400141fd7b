"""Remove folders of environments that are out of use: of older recipes, and of environments not served."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .in_use import Use, reserved
from .installation import former_folder, locked

_FOLDER = re.compile(r"(?P<name>.+?)-(?:[0-9a-f]{16}(?:\.kept|\.former)?|draft-[a-z0-9_]{8})")
"""Results of a recipe, parts that a failed preparation kept, and what one that was killed left."""


@dataclass(slots=True)
class PrunedFolders:
    """The outcome of a clean-up."""

    removed: list[Path] = field(default_factory=list)
    in_use: list[Path] = field(default_factory=list)
    """Folders that a running service uses, or may use where folders cannot be locked; they stay."""
    size: int = 0
    """Bytes of what was removed."""


def prune_folders(
    root: Path,
    kept: Collection[Path],
    *,
    names: Collection[str] | None = None,
    spared_names: Collection[str] = (),
    dry_run: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> PrunedFolders:
    """Remove the folders below ``root`` that are not kept, and return what was removed.

    Args:
        kept: results of the recipes that stay.
        names: environments whose folders may go; all by default.
        spared_names: environments whose folders stay.
        dry_run: only report what would be removed.
        report: gets a line for each environment whose set-up has to end first.

    Folders that running services use stay. Raises ServiceError(SANDBOX_FAILED) if ``root`` cannot be written,
    or a set-up does not end in time.
    """
    spared = {*kept, *(path.with_name(f"{path.name}.kept") for path in kept)}
    done = PrunedFolders()
    for name, folders in _by_name(root).items():
        if name in spared_names or (names is not None and name not in names):
            continue
        # A set-up in progress holds this lock while it fills its draft; who only looks need not wait for it.
        with nullcontext() if dry_run else locked(root, name, report):
            # The next set-up gives a former folder without a successor its name back.
            formers = {former_folder(path) for path in kept if not path.is_dir()}
            for folder in folders:
                if folder not in spared | formers and folder.is_dir():
                    _prune(folder, done, dry_run=dry_run)
    return done


def _by_name(root: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        if match is not None and path.is_dir() and not path.is_symlink():
            found[match["name"]].append(path)
    return found


def _prune(folder: Path, done: PrunedFolders, *, dry_run: bool) -> None:
    with reserved(folder) as use:
        if use is not Use.NONE:
            done.in_use.append(folder)
            return
        done.size += disk_bytes(folder)
        done.removed.append(folder)
        if not dry_run:
            shutil.rmtree(folder, ignore_errors=True)


def disk_bytes(folder: Path) -> int:
    """Return the disk space of the files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total
