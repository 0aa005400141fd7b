"""Remove what instances wrote, under their own user ids, and verify as the runner that nothing is left.

Where ids are dropped, the owner shows whose a file is, wherever it lies. Where they are not, an instance's
files are those in its own directories, and shared directories are emptied only when they are private to the
box: a directory that others of the machine can write is never touched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Collection, Container, Iterator
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel import killing
from sandbox_service.runner.kernel.privileges import Identity, ipc_objects, remove_ipc_objects
from sandbox_service.runner.kernel.removal import (
    find_owned,
    owns_nothing,
    paths_below,
    remove_owned,
    remove_tree,
)

if TYPE_CHECKING:
    from sandbox_service.runner.config import RunnerConfig


_LONGEST_S = 60
"""Limit of real time, which passes also while a busy machine keeps the cleanup from a processor."""


class Cleanup:
    """The directories of a box, and what may stay in them."""

    def __init__(self, config: RunnerConfig) -> None:
        self._config = config
        self._kept: frozenset[str] = frozenset()

    @property
    def _shared(self) -> list[str]:
        return [*self._config.scratch, self._config.workspace_root]

    def mark(self) -> None:
        """Keep what is there now, whatever is cleaned up later."""
        if self._config.drop_uids:
            env = self._config.env_uid
            self._kept = frozenset(find_owned(self._shared, lambda owner: owner == env, most=None))
        else:
            self._kept = paths_below(self._private())

    def _private(self) -> list[str]:
        """Shared directories that nobody outside the box can write."""
        found = []
        for path in self._shared:
            try:
                information = os.lstat(path)
            except OSError:
                continue
            if information.st_uid == os.geteuid() and not information.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                found.append(path)
        return found

    def clean(self, uid: int | None, directory: str, longest_s: float = _LONGEST_S) -> bool:
        """Remove a candidate's directory and all that its id owns; False when it took longer than that."""
        # Most candidates write nothing, and a look costs less than a process.
        if uid is not None and self._left_nothing(uid, directory):
            return True
        ended = self._as(uid, [directory], self._shared if uid is not None else [], longest_s)
        return ended and not os.path.lexists(directory)

    def _left_nothing(self, uid: int, directory: str) -> bool:
        """Return whether a candidate's directory, removed if it is empty, was all that its id made."""
        return _remove_empty(directory) and owns_nothing(uid, self._shared) and not _ipc_left({uid})

    def close(self, uid: int) -> bool:
        """Take from others all rights to what ``uid`` owns in shared directories; False when that failed.

        It begins and ends at their top, with which all below is out of reach. No process of ``uid`` may run,
        lest it open them again.
        """

        def close() -> None:
            for path, mode in self._open_to_others(uid):
                os.chmod(path, mode & 0o700)  # noqa: PTH101

        # Most agents open nothing, and a look costs less than a process.
        if not any(True for _ in self._open_to_others(uid)):
            return True
        try:
            return killing.run_as(Identity(uid, self._config.keeper_uid), close) == 0
        except OSError:
            return False

    def _open_to_others(self, uid: int) -> Iterator[tuple[str, int]]:
        """Yield path and mode of what ``uid`` owns in shared directories and others have rights to."""
        for path in filter(os.path.isdir, self._shared):
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        information = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        # Neighbours remove theirs meanwhile.
                        continue
                    mode = stat.S_IMODE(information.st_mode)
                    if information.st_uid == uid and mode & 0o077 and not entry.is_symlink():
                        yield entry.path, mode

    def clean_instance(self, serial: int, uid: int | None, last: bool, graded: Collection[int]) -> list[str]:
        """Remove an instance's directories and, with the last of its group, all that its id owns.

        Returns what is left of it, and of its candidates, whose ids are ``graded``.
        """
        config = self._config
        own = [config.workspace(serial), config.temporary_directory(serial)]
        directories = [path for path in own if path is not None]
        self._as(uid, directories, self._shared if last and uid is not None else [])
        left = [path for path in directories if os.path.lexists(path)]
        uids = {*graded, *([uid] if uid is not None and last else [])}
        return left + (self._left_of(uids) if uids else [])

    def _left_of(self, uids: set[int]) -> list[str]:
        return find_owned(self._shared, uids.__contains__) + _ipc_left(uids)

    def _as(
        self, uid: int | None, directories: list[str], shared: list[str], longest_s: float = _LONGEST_S
    ) -> bool:
        owner = os.geteuid() if uid is None else uid

        def remove() -> None:
            self._limit_time(longest_s)
            for path in directories:
                remove_tree(path, owner)
            remove_owned(shared, owner)
            if shared:
                remove_ipc_objects(owner)

        identity = None if uid is None else Identity(uid, self._config.keeper_uid)
        try:
            return killing.run_as(identity, remove) == 0
        except OSError:
            return False

    def clean_all(self, serials: Collection[int], uids: Collection[int]) -> list[str]:
        """Empty the box's directories as far as they are ours; what is left.

        ``serials`` are the instances that were in the box, ``uids`` the ids under which they wrote.
        """
        config = self._config
        if not config.drop_uids:
            private = self._private()
            remove_owned(private, os.geteuid(), self._kept)
            left = [path for path in paths_below(private) if path not in self._kept]
            return left + [
                f"{path} is not private to the box" for path in self._shared if path not in private
            ]

        def remove() -> None:
            self._limit_time(_LONGEST_S)
            remove_owned(self._shared, config.env_uid, self._kept)

        ours = range(config.uid_base, config.uid_base + config.uid_count)

        def look() -> list[str]:
            left = find_owned(self._shared, lambda uid: uid in ours or uid == config.env_uid, self._kept)
            return left + _ipc_left(ours)

        for serial in serials:
            _remove_empty(config.workspace(serial))
        # Most instances leave nothing else: then this look is all, and no process is needed.
        left = look()
        if left and uids:
            for uid in uids:
                self._as(uid, [], self._shared)
            left = look()
        if left:
            with contextlib.suppress(OSError):
                killing.run_as(Identity.of(config.env_uid), remove)
            left = look()
        return left

    def _limit_time(self, longest_s: float) -> None:
        """End this process when it has used its processor time or ``longest_s`` of real time.

        An agent is charged for what it computes, not for its waits: on a busy machine, real time that
        suffices to write files may not suffice to remove them. A child has to call this: fork(2) passes no
        timers on.
        """
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, longest_s)
        signal.setitimer(signal.ITIMER_PROF, self._config.cleanup_cpu_s)


def _remove_empty(directory: str) -> bool:
    """Remove a directory in a folder of ours if nothing is in it; whether it is gone."""
    try:
        os.rmdir(directory)  # noqa: PTH106
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _ipc_left(uids: Container[int]) -> list[str]:
    return [f"sysv {kind} {key}" for kind in ("shm", "sem", "msg") for key in ipc_objects(kind, uids)]
