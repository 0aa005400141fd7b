"""Folders that instances and candidates write to, and their removal.

Where the launcher may mount, each instance and candidate has folders of its own; where it may not, they share
folders, which are cleaned up. Freeing or removing what an agent left takes as long as the agent made it take,
so children of the launcher do it while the launcher goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.mount_namespace import MountNamespace

from .cleanup import Cleanup
from .cleanup_processes import CleanupProcesses

if TYPE_CHECKING:
    from sandbox_service.runner.config import RunnerConfig

    from .uid_groups import UidGroup


_AT_ONCE_S = 0.2
"""Longest time for which the launcher itself removes a candidate's files."""


@dataclass(frozen=True, slots=True)
class CandidateStorage:
    """The user id and folders of one candidate, which nobody had before."""

    uid: int | None
    directory: str
    namespace: MountNamespace | None


class Storage:
    """Gives folders to groups and candidates: none that another one ever had."""

    def __init__(self, config: RunnerConfig) -> None:
        self._config = config
        self._storages: dict[int, CandidateStorage] = {}
        self._graded: dict[int, set[int]] = {}
        self._unclean: dict[int, list[CandidateStorage]] = {}
        self._candidates = 0
        self.processes = CleanupProcesses()
        self.cleanup = Cleanup(config)

    def of_group(self, group: UidGroup) -> MountNamespace | None:
        """Return the namespace of a group, made for its first process; None where folders are shared."""
        if self._config.private_folders and group.namespace is None:
            group.namespace = MountNamespace.create(self._config.private_folders)
        return group.namespace

    def of_candidate(self, serial: int) -> CandidateStorage:
        """Return the storage of an instance's candidate, made anew after each ``clear_candidate``."""
        if serial not in self._storages:
            config, number = self._config, self._candidates
            self._candidates += 1
            namespace = MountNamespace.create(config.private_folders) if config.private_folders else None
            storage = CandidateStorage(
                config.candidate_uid(number), config.candidate_directory(number), namespace
            )
            self._storages[serial] = storage
        return self._storages[serial]

    def has_candidate(self, serial: int) -> bool:
        """Return whether an instance has a candidate whose storage was not cleared."""
        return serial in self._storages

    def candidate_uid(self, serial: int) -> int | None:
        """Return the user id of an instance's candidate, if it has a candidate."""
        storage = self._storages.get(serial)
        return None if storage is None else storage.uid

    def clear_candidate(self, serial: int) -> None:
        """Remove what an instance's candidate wrote, so that no other candidate finds it."""
        storage = self._storages.pop(serial)
        if storage.namespace is not None:
            self._free(storage.namespace)
            return
        if storage.uid is not None:
            self._graded.setdefault(serial, set()).add(storage.uid)
        if self.cleanup.clean(storage.uid, storage.directory, _AT_ONCE_S):
            return
        # There are many files: close them to others, and have them removed while the grading goes on. The
        # release verifies it.
        self._unclean.setdefault(serial, []).append(storage)
        if storage.uid is not None:
            self.cleanup.close(storage.uid)
        self.processes.run("files of a candidate", partial(self._remove, [storage]), lambda _: None)

    def _remove(self, storages: list[CandidateStorage]) -> list[str]:
        return [
            storage.directory
            for storage in storages
            if not self.cleanup.clean(storage.uid, storage.directory)
        ]

    def close(self, group: UidGroup) -> bool:
        """Close to candidates what a stopped or killed agent left open in shared folders."""
        if group.namespace is not None or group.uid is None or not group.touched:
            return True
        return self.cleanup.close(group.uid)

    def clear(self, serial: int, group: UidGroup, done: Callable[[list[str]], None]) -> None:
        """Remove what an instance wrote that has left its group; ``done`` gets what is left."""
        namespace, last = group.namespace, not group.members
        graded, unclean = self._graded.pop(serial, set()), self._unclean.pop(serial, [])
        if last and namespace is not None and self._config.system_calls:
            # Nothing can lie elsewhere: agents cannot write other folders, and the filter of system calls
            # keeps them from System V objects.
            self._free(namespace)
            done([])
            return

        def clean() -> list[str]:
            if namespace is not None:
                namespace.enter()
            left = self._remove(unclean)
            return left + self.cleanup.clean_instance(serial, group.uid, last, graded)

        handed_over = namespace.fd if last and namespace is not None else None
        self.processes.run(f"files of {serial}", clean, done, handed_over)

    def clear_all(self, groups: Mapping[int, UidGroup]) -> set[int]:
        """Free the folders of instances that all end; return the user ids under which they wrote elsewhere.

        What they wrote elsewhere is removed by ``Cleanup.clean_all``, for all of them together.
        """
        uids: set[int | None] = set()
        for serial, group in groups.items():
            if group.namespace is not None:
                self.clear(serial, group, lambda _: None)
            else:
                self._graded.pop(serial, None)
                uids |= {group.uid, *(storage.uid for storage in self._unclean.pop(serial, []))}
        return {uid for uid in uids if uid is not None}

    def _free(self, namespace: MountNamespace) -> None:
        """Give up a namespace: a child holds it last, and what lies in it is freed when the child exits."""
        self.processes.run("folders", list, lambda _: None, namespace.fd)
