"""Ownership: which processes and folders belong to which instance, and how all of them end.

Instances that were forked from each other form a group with one user id, since a process without privileges
cannot change its own. An instance alone in its group is killed by user id, which no fork outruns; any other
by process tree. A child of the launcher that no instance owns is an orphan, and is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel import killing
from sandbox_service.runner.kernel.privileges import Identity, ProcessLimits
from sandbox_service.runner.kernel.procfs import ProcessEntry, children, descendants, look_up, snapshot

from .spawn import ChildContext, fork_child
from .storage import Storage
from .uid_groups import HELPERS, AgentProcess, UidGroup

if TYPE_CHECKING:
    from sandbox_service.runner.config import RunnerConfig


_QUIET_LOOKS, _HUNT_S, _DYING_S = 20, 1.0, 0.1


class Ownership:
    """The processes of all instances, by pid, and the storage that goes with them."""

    def __init__(self, config: RunnerConfig) -> None:
        self.config = config
        self.forks_in_progress = 0
        """While a fork is under way, a child of unknown owner may be a session's copy, not an orphan."""
        self._processes: dict[int, AgentProcess] = {}
        self._groups: dict[int, UidGroup] = {}
        self._left: dict[int, list[str]] = {}
        """Processes of an instance's candidates that could not be killed."""
        self._storage = Storage(config)
        self._ended: list[tuple[AgentProcess, int]] = []

    def add_instance(self, serial: int, copy_of: int | None) -> None:
        """Add an instance, alone or to the group of the one that it is a copy of."""
        new = UidGroup(self.config.agent_uid(serial))
        group = new if copy_of is None else self._groups[copy_of]
        group.members.add(serial)
        self._groups[serial] = group

    def place(self, serial: int, kind: str) -> ChildContext:
        """Return where, and under which user ids and limits, a process of that kind runs."""
        config, limits = self.config, self.config.limits
        if kind == "candidate":
            own = self._storage.of_candidate(serial)
            identity = None if own.uid is None else Identity.of(own.uid)
            return ChildContext(own.directory, own.directory, identity, limits, config.filter, own.namespace)
        group = self._groups[serial]
        uid, namespace = group.uid, self._storage.of_group(group)
        helper = kind in HELPERS
        identity = None if uid is None else Identity(uid, config.keeper_uid if helper else uid)
        if helper:
            limits = ProcessLimits(open_files=limits.open_files, file_mib=limits.file_mib)
        directory, temporary = config.workspace(serial), config.temporary_directory(serial)
        return ChildContext(directory, temporary, identity, limits, config.filter, namespace)

    def start(
        self, serial: int, kind: str, place: ChildContext, descriptors: list[int], run: Callable[[], None]
    ) -> int:
        """Fork a process for an instance and return its pid. Raises OSError when no process can be made."""
        self._groups[serial].touched = True
        pid = fork_child(place, descriptors, run)
        self._processes[pid] = AgentProcess(pid, serial, kind)
        return pid

    def adopt(self, pid: int, serial: int) -> bool:
        """Make a session's copy an instance's; False when the process cannot be one."""
        # The pid comes from agent code: only what the process table confirms is believed.
        process, uid = look_up(pid), self._groups[serial].uid
        # A cleanup is a child of the launcher, too; without user ids only this separates it from a session.
        if process is None or process.parent != os.getpid() or pid in self._owned:
            return False
        if uid is not None and process.uids != {uid}:
            return False
        self._processes[pid] = AgentProcess(pid, serial, "session")
        return True

    def collect(self) -> list[tuple[AgentProcess, int]]:
        """Return the processes that ended since the last call, and kill what they left behind."""
        self._reap()
        ended: list[tuple[AgentProcess, int]] = []
        while self._ended:
            # Killing orphans reaps, too, and more of our own processes may turn out to have ended.
            now, self._ended = self._ended, []
            ended += now
            if any(process.kind not in HELPERS for process, _ in now):
                self.end_orphans()
        return ended

    def _reap(self) -> None:
        killing.reap(self._reaped)

    def _reaped(self, pid: int, code: int) -> None:
        process = self._processes.pop(pid, None)
        if process is None:
            self._storage.processes.process_ended(pid, code)
        else:
            self._ended.append((process, code))

    def owns(self, serial: int, pid: int) -> bool:
        """Return whether a process is an instance's."""
        process = self._processes.get(pid)
        return process is not None and process.serial == serial

    @property
    def _owned(self) -> set[int]:
        """The launcher's children that are no orphans."""
        return self._processes.keys() | self._storage.processes.pids

    def _orphans(self, processes: dict[int, ProcessEntry]) -> set[int]:
        if self.forks_in_progress:
            return set()
        own = os.getpid()
        orphans = [p.pid for p in processes.values() if p.parent == own and p.pid not in self._owned]
        return descendants(processes, orphans)

    def end_orphans(self) -> bool:
        """Kill every child of the launcher that no instance owns, with its descendants."""
        if self.forks_in_progress or self._owned >= set(children()):
            return True
        self._catch_orphans()
        if killing.end(lambda: self._orphans(snapshot()), self._reap):
            return True
        # It forks faster than the process table can be read, so all of its user id is killed at once.
        processes = snapshot()
        uids = {uid for pid in self._orphans(processes) for uid in processes[pid].uids}
        for uid in uids & {group.uid for group in self._groups.values()}:
            self._end_uid(uid)
        return not self._orphans(snapshot())

    def end_process(self, pid: int) -> bool:
        """Kill one process with its descendants, and the orphans."""

        def look() -> set[int]:
            processes = snapshot()
            return descendants(processes, {pid} & self._processes.keys()) | self._orphans(processes)

        self._catch_orphans()
        return killing.end(look, self._reap)

    def _catch_orphans(self) -> None:
        """Kill orphans the moment they become children of the launcher.

        Without user ids this is the only way to catch a process that forks and exits faster than the process
        table can be read: while the chain goes on, one link of it is always a child of the launcher.
        """
        quiet = 0 if not (self.config.drop_uids or self.forks_in_progress) else _QUIET_LOOKS
        deadline = time.monotonic() + _HUNT_S
        while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
            self._reap()
            orphans = [pid for pid in children() if pid not in self._owned]
            quiet = 0 if orphans else quiet + 1
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def end_agent(self, serial: int) -> bool:
        """Kill every process of an instance's agent."""
        group = self._groups[serial]
        if not group.touched:
            return True
        if group.uid is not None and group.members == {serial}:
            return self._end_uid(group.uid)
        self._catch_orphans()
        return killing.end(self._tree_of(serial), self._reap)

    def kill_agent(self, serial: int) -> bool:
        """Kill an instance's agent and close to candidates what it left open in shared folders."""
        return self.end_agent(serial) and self._storage.close(self._groups[serial])

    def freeze_agent(self, serial: int) -> bool:
        """Stop an instance's agent and close to candidates what it left open in shared folders."""
        return self.signal_agent(serial, signal.SIGSTOP) and self._storage.close(self._groups[serial])

    def end_candidate(self, serial: int) -> bool:
        """Kill an instance's candidate and remove what it wrote; False when a process is left."""
        if not self._storage.has_candidate(serial):
            return True
        uid = self._storage.candidate_uid(serial)
        tree = self._tree_of(serial, candidate=True)
        ended = killing.end(tree, self._reap) if uid is None else self._end_uid(uid)
        if not ended:
            self._left.setdefault(serial, []).append(f"processes of candidate {serial}")
        self._storage.clear_candidate(serial)
        return ended

    def signal_agent(self, serial: int, number: signal.Signals) -> bool:
        """Stop or resume every process of an instance's agent."""
        group = self._groups[serial]
        uid = group.uid if group.members == {serial} else None
        look = self._tree_of(serial) if uid is None else killing.holders({uid})
        if uid is None or not killing.signal_uid(uid, self.config.sweeper_uid, number):
            killing.signal_all(look, number)
        return number != signal.SIGSTOP or killing.await_stopped(look)

    def _tree_of(self, serial: int, candidate: bool = False) -> Callable[[], set[int]]:
        def look() -> set[int]:
            processes = snapshot()
            roots = [
                process.pid
                for process in self._processes.values()
                if process.serial == serial and (process.kind == "candidate") == candidate
            ]
            return descendants(processes, roots) | self._orphans(processes)

        return look

    def _end_uid(self, uid: int) -> bool:
        # Children that were not reaped yet, so that their ids cannot mean other processes.
        for pid in self._processes_of(uid):
            os.kill(pid, signal.SIGKILL)
        # What they leave behind becomes a child of the launcher; mostly there is none, and this was all.
        if self._await_end(uid):
            return True
        if killing.signal_uid(uid, self.config.sweeper_uid, signal.SIGKILL):
            self._await_end(uid)
        # This look proves that none is left, and kills one by one where signal_uid could make no process.
        return killing.end(killing.holders({uid}), self._reap)

    def _await_end(self, uid: int) -> bool:
        """Wait a moment for killed processes to be gone; True when they are and left no orphan."""
        deadline = time.monotonic() + _DYING_S
        while time.monotonic() < deadline:
            self._reap()
            if not self._processes_of(uid):
                return not self.forks_in_progress and self._owned >= set(children())
            time.sleep(0.0003)
        return False

    def _processes_of(self, uid: int) -> list[int]:
        return [process.pid for process in self._processes.values() if self._uid_of(process) == uid]

    def _uid_of(self, process: AgentProcess) -> int | None:
        if process.kind == "candidate":
            return self._storage.candidate_uid(process.serial)
        group = self._groups.get(process.serial)
        return None if group is None else group.uid

    def release(self, serial: int, done: Callable[[list[str]], None]) -> None:
        """Kill an instance's processes and remove its files; ``done`` gets what is left of them."""
        group = self._groups.get(serial)
        if group is None or not group.touched:
            self._forget(serial)
            done([])
            return
        # Processes before files: one that lived on could write again behind the cleanup.
        left: list[str] = []
        if not self.end_agent(serial):
            left.append(f"processes of {serial}")
        self.end_candidate(serial)
        left += self._left.get(serial, [])
        self._forget(serial)
        self._storage.clear(serial, group, lambda rest: done(left + rest))

    def _forget(self, serial: int) -> None:
        group = self._groups.pop(serial, None)
        if group is not None:
            group.members.discard(serial)
        self._left.pop(serial, None)

    def mark_clean(self) -> None:
        """Take what lies in shared directories now for the world's, which no cleanup removes."""
        self._storage.cleanup.mark()

    def reset(self) -> list[str]:
        """Kill and remove everything of all instances; return what is left anywhere in the box."""
        leaving = dict(self._groups)
        for serial in leaving:
            self.end_agent(serial)
            self.end_candidate(serial)
            self._forget(serial)
        uids = self._storage.clear_all(leaving)
        # Before everything is killed: the cleanups are descendants of the launcher, too.
        self._storage.processes.await_all(self._reap)
        if not self.end_everything():
            return ["processes"]
        return self._storage.cleanup.clean_all(leaving, uids)

    def end_everything(self) -> bool:
        """Kill every descendant of the launcher; workers and zygote are not among them."""
        self.forks_in_progress = 0

        def look() -> set[int]:
            processes, config = snapshot(), self.config
            found = descendants(processes, [os.getpid()]) - {os.getpid()}
            if config.drop_uids:
                ours = range(config.uid_base, config.uid_base + config.uid_count)
                found |= {p.pid for p in processes.values() if any(uid in ours for uid in p.uids)}
            return found

        return killing.end(look, self._reap)
