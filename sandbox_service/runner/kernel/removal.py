"""Remove what an instance left in shared directories, and verify that nothing is left.

``remove_owned`` runs in a child under the instance's own user id, since the runner has no capability to
remove files of other users. ``find_owned`` runs as the runner and only reads. By then every process of the id
is dead, so that no name can change between the check of an entry and its removal. The service removes the
folders of whole boxes by ``remove_tree``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Iterable

_DEPTH = 64
"""Deeper directories are first moved to the top, so that no nesting exhausts descriptors or the stack."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LEFT = 20
"""Paths that a report names."""
_SHORT_LOOK = 200
"""Entries after which ``owns_nothing`` gives up."""


def remove_tree(path: str, uid: int | None) -> None:
    """Remove a directory of ``uid``, or of any user, with everything below it, or the file at its path."""
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108
            return
        # Its owner may have taken the rights to list and change it from itself; others' may allow both.
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)  # noqa: PTH101
        remove_owned([path], uid)
        os.rmdir(path)  # noqa: PTH106


def remove_owned(roots: Iterable[str], uid: int | None, keep: frozenset[str] = frozenset()) -> None:
    """Remove everything of ``uid``, or of any user, below ``roots`` except ``keep``; the roots stay."""
    for root in roots:
        try:
            top = os.open(root, _DIRECTORY)
        except OSError:
            continue
        try:
            remover = _Remover(top, uid, keep)
            while remover.sweep(top, root, _DEPTH):
                pass
        finally:
            os.close(top)


class _Remover:
    """One walk through one root, by descriptors, never through a symbolic link."""

    def __init__(self, top: int, uid: int | None, keep: frozenset[str]) -> None:
        self._top = top
        self._uid = uid
        self._keep = keep

    def sweep(self, directory: int, path: str, depth: int) -> bool:
        """Remove what ``uid`` owns in a directory; True when another round must remove what was moved."""
        own = self._is_mine(os.fstat(directory))
        moved = False
        with os.scandir(directory) as entries:
            found = list(entries)
        for entry in found:
            place = f"{path}/{entry.name}"
            if place in self._keep:
                continue
            try:
                information = entry.stat(follow_symlinks=False)
                mine = self._is_mine(information)
                if stat.S_ISDIR(information.st_mode):
                    moved |= self._remove_directory(directory, entry.name, place, mine, depth)
                elif mine or own:
                    os.unlink(entry.name, dir_fd=directory)
            except OSError:
                continue
        return moved

    def _is_mine(self, information: os.stat_result) -> bool:
        return self._uid is None or information.st_uid == self._uid

    def _remove_directory(self, parent: int, name: str, path: str, mine: bool, depth: int) -> bool:
        if mine:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
                return False
        elif depth == 0:
            return False
        child = _open_up(name, parent) if mine else os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            if mine:
                with contextlib.suppress(OSError):
                    os.fchmod(child, 0o700)
            if depth == 0:
                # Each level holds a descriptor open. A new name at the top, where the next round begins: a
                # random one, since a name that is taken keeps the directory where it is.
                target = f".swept-{os.urandom(12).hex()}"
                os.rename(name, target, src_dir_fd=parent, dst_dir_fd=self._top)
                return True
            moved = self.sweep(child, path, depth - 1)
        finally:
            os.close(child)
        if mine:
            os.rmdir(name, dir_fd=parent)
        return moved


def _open_up(name: str, parent: int) -> int:
    """Open a directory, even where its owner took the right to list it from itself."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        # Not as root with its usual capabilities, for which a link put in its place would matter.
        os.chmod(name, 0o700, dir_fd=parent)
        return os.open(name, _DIRECTORY, dir_fd=parent)


def find_owned(
    roots: Iterable[str],
    suspect: Callable[[int], bool],
    keep: frozenset[str] = frozenset(),
    most: int | None = MAX_LEFT,
) -> list[str]:
    """Return paths below ``roots`` whose owner is ``suspect``, except those in ``keep``; at most ``most``."""
    found = (path for path, owner in _walk(roots) if suspect(owner) and path not in keep)
    return list(itertools.islice(found, most))


def owns_nothing(uid: int, roots: Iterable[str]) -> bool:
    """Return whether ``uid`` owns nothing below ``roots``; False also where there is too much to look at."""
    return all(owner != uid and number < _SHORT_LOOK for number, (_, owner) in enumerate(_walk(roots)))


def paths_below(roots: Iterable[str]) -> frozenset[str]:
    """Return every path below ``roots`` that this process can see."""
    return frozenset(path for path, _ in _walk(roots))


def _walk(roots: Iterable[str]) -> Iterable[tuple[str, int]]:
    waiting = list(roots)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        information = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    yield entry.path, information.st_uid
                    if stat.S_ISDIR(information.st_mode):
                        waiting.append(entry.path)
        except OSError:
            continue
