"""Room for the tests, in a box whose agent and verifier share bounded folders.

What an agent has left there could fill them, or have the names of files that tests write. So it is copied,
removed, and brought back after the grading; the tests find empty folders. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.runner.worker.allowance import kept_waiting
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .layout import IMAGE_TESTS, INITIAL, LINK, SCRATCH, pack, pack_all, unpack

if TYPE_CHECKING:
    from sandbox_service.runner.world import Agent

    from .step_tests import Work


LEAST_ARCHIVE = 48 * 1024**2
"""Characters that a packed folder may always have; a longer one is neither graded nor brought back."""
NO_SPACE = os.strerror(errno.ENOSPC)
LEAST_SHARE = 0.5
"""Free share of bytes and files with which a copy of the agent's files and what the tests write find room."""
_COPY_SHARE = 0.25
"""Share of the remaining time that the copy of the agent's files may take."""
_COPY_S = 5.0
"""Longest time for a copy of the least length that may be kept; longer ones have more in proportion."""
_BUSY = 4
"""Real time that a copy may take on a busy machine, in times of its own."""
_LEAST_S = 1.0
_WAIT_S = 30.0
"""Longest wait for the removal of what an earlier verifier has left."""
_POLL_S = 0.05


class Room:
    """The folders that the agent shares with its verifiers."""

    def __init__(
        self,
        agent: Agent,
        work: Work | None,
        deadline: float,
        scratch: Sequence[str] = SCRATCH,
        least_share: float = LEAST_SHARE,
        archive_bytes: int = LEAST_ARCHIVE,
    ) -> None:
        """``work`` is the copy of the working directory, which comes back where the whole is too large.
        Where it is artifacts, the directory is copied when room is made.

        ``scratch`` are the folders besides the workspaces, and ``least_share`` of each must be free.
        What is brought back has at most ``archive_bytes``, packed and as base64.
        """
        self._agent = agent
        self._work = work
        self._deadline = deadline
        self._archive_bytes = archive_bytes
        top = posixpath.dirname(agent.workspace)
        self._folders = [top, *scratch]
        self._own = (agent.workspace,)
        self._link = f"{top}/{LINK}"
        self._least_share = least_share
        self._made = False
        self._shared = True
        self._kept: tuple[str, str] | None = None
        """An archive that the agent gets back, and the folder to unpack it in."""

    def is_taken(self) -> bool:
        """Return whether the tests may lack room, or find files that are not theirs.

        False where they have folders of their own, which this process does not see.
        """
        return self._shared and (
            self._has_strangers()
            or any(free_share(os.statvfs(folder)) < self._least_share for folder in self._existing())
        )

    def _has_strangers(self) -> bool:
        return any(has_strangers(folder, self._own, self._link) for folder in self._existing())

    def _existing(self) -> list[str]:
        return [folder for folder in self._folders if Path(folder).is_dir()]

    def make(self) -> None:
        """Remove everything of the agent's, and wait until there is room.

        Raises TimeoutError when the agent has left so much that its removal takes too long, and
        WorldError(sandbox_failed) when the room is taken by something else. Idempotent.
        """
        if not self._made:
            self._made = True
            kept = self._copied()
            try:
                self._agent.remove_files(self._folders, max(_LEAST_S, self._deadline - time.monotonic()))
                self._kept = kept
            except PermissionError:
                # The agent's user id is the verifier's, too: then each has folders of its own.
                self._shared = False
        self.wait_for_room()

    def wait_for_room(self) -> None:
        """Wait until there is room.

        Raises TimeoutError when something that the agent or its tests left stays there, and WorldError:
        sandbox_failed when there is too little space without it, deadline_exceeded on a busy machine.
        """
        started = time.monotonic()
        deadline = min(self._deadline, started + _WAIT_S)
        while self.is_taken():
            if time.monotonic() >= deadline:
                waited_s = time.monotonic() - started
                if not self._has_strangers():
                    raise no_room("the folders of the box are more than half full without the agent's files")
                if kept_waiting(0.0, waited_s, waited_s):
                    detail = "the machine is too busy to remove what the agent left"
                    raise WorldError(detail, BoxErrorCode.DEADLINE_EXCEEDED)
                raise TimeoutError
            time.sleep(_POLL_S)

    def give_back(self) -> None:
        """Bring the agent's files back, as far as they could be copied."""
        if self._kept is None:
            return
        script = unpack(*self._kept)
        # It may be an eighth of the box's memory.
        self._kept = None
        with contextlib.suppress(WorldError, OSError):
            self._agent.shell(script, max(_LEAST_S, self._deadline - time.monotonic()))

    def _copied(self) -> tuple[str, str] | None:
        """Return a copy of all, or else of the working directory, and the folder to unpack it in."""
        if (packed := self._packed(pack_all(self._folders))) is not None:
            return packed, "/"
        work = self._work
        if isinstance(work, list):
            work = self._packed(pack(self._agent.workspace))
        return None if work is None else (work, self._agent.workspace)

    def _packed(self, command: str) -> str | None:
        """Return the archive that a command writes; None where it is too long, or takes too long."""
        left_s = self._deadline - time.monotonic()
        with contextlib.suppress(WorldError):
            copy_s = _COPY_S * self._archive_bytes / LEAST_ARCHIVE
            most_s = max(_LEAST_S, left_s * _COPY_SHARE)
            # A busy machine takes longer for the same.
            wall_s = min(_BUSY * copy_s, most_s)
            packed = self._agent.shell(command, min(copy_s, most_s), self._archive_bytes, wall_s)
            if packed.exit_code == 0 and not packed.truncated:
                return packed.output
        return None


def check_image_fits(workspace: str) -> None:
    """Raise WorldError if half of a box's storage is too little for initial files and tests of its image."""
    size = count = 0
    for parent, folders, names in (walked for top in (INITIAL, IMAGE_TESTS) for walked in os.walk(top)):
        count += len(folders) + len(names)
        size += sum(os.lstat(os.path.join(parent, name)).st_size for name in names)  # noqa: PTH118
    found = os.statvfs(workspace)
    if 2 * size > found.f_blocks * found.f_frsize or (found.f_files and 2 * count > found.f_files):
        raise WorldError(
            f"the image of the tests has {size} bytes and {count} files in its initial working directory and "
            "/tests, more than half of the storage of its box (verifier.environment.storage_mb, "
            "sandbox.limits.workspace_mib and workspace_inodes); the other half is for the artifacts"
        )


def no_room(detail: str) -> WorldError:
    """Return the error of a box in which untouched files find no room."""
    settings = "environment.storage_mb of the task, sandbox.limits.workspace_mib and workspace_inodes"
    detail = f"the tests have no room: {detail}; see {settings}"
    return WorldError(detail, BoxErrorCode.SANDBOX_FAILED)


def free_share(found: os.statvfs_result) -> float:
    """Return the free share of a file system's bytes or files, whichever is less."""
    # Where the system does not count them, nothing bounds them.
    pairs = ((found.f_bavail, found.f_blocks), (found.f_favail, found.f_files))
    return min(free / total if total else 1.0 for free, total in pairs)


def has_strangers(folder: str, own: Container[str], link: str = "") -> bool:
    """Return whether an agent or a verifier has left something at the top of a folder.

    Except ``own``, and ``link`` if it is one: the next verifier replaces a link, but no folder in its place.
    """
    # Neither is this process's user, nor root.
    ours = (0, os.geteuid())
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.path not in own
                and not (entry.path == link and entry.is_symlink())
                and entry.stat(follow_symlinks=False).st_uid not in ours
                for entry in entries
            )
    except FileNotFoundError:
        # Removed meanwhile: the next look decides.
        return True
