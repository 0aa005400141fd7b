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
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel import killing
from sandbox_service.runner.kernel.privileges import Identity, Limits
from sandbox_service.runner.kernel.procfs import Process, children, descendants, look_up, snapshot

from .spawn import Place, fork_child
from .storage import Lodgings
from .uid_groups import HELPERS, Family, Root

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.runner.config import RunnerConfig

__all__ = ["Premises"]

_QUIET_LOOKS, _HUNT_S, _DYING_S = 20, 1.0, 0.1


class Premises:
    """Everything that agents have in the box."""

    def __init__(self, config: RunnerConfig) -> None:
        self.config = config
        self.holds = 0
        """Forks in progress, during which a child of unknown owner is no stray."""
        self._roots: dict[int, Root] = {}
        self._families: dict[int, Family] = {}
        self._left: dict[int, list[str]] = {}
        """What candidates of an instance left that could not be ended."""
        self._lodgings = Lodgings(config)
        self._ended: list[tuple[Root, int]] = []

    def admit(self, serial: int, copy_of: int | None) -> None:
        """An instance moves in, alone or into the family of the one it is a copy of."""
        new = Family(self.config.agent_uid(serial))
        family = new if copy_of is None else self._families[copy_of]
        family.members.add(serial)
        self._families[serial] = family

    def place(self, serial: int, kind: str) -> Place:
        """Where and as whom a process of that kind runs."""
        config, limits = self.config, self.config.limits
        if kind == "candidate":
            stand = self._lodgings.of_candidate(serial)
            identity = None if stand.uid is None else Identity.of(stand.uid)
            return Place(stand.directory, stand.directory, identity, limits, config.filter, stand.quarters)
        family = self._families[serial]
        uid, quarters = family.uid, self._lodgings.of_family(family)
        helper = kind in HELPERS
        identity = None if uid is None else Identity(uid, config.keeper_uid if helper else uid)
        if helper:
            limits = Limits(open_files=limits.open_files, file_mib=limits.file_mib)
        directory, temporary = config.workspace(serial), config.temporary_directory(serial)
        return Place(directory, temporary, identity, limits, config.filter, quarters)

    def start(
        self, serial: int, kind: str, place: Place, descriptors: list[int], run: Callable[[], None]
    ) -> int:
        """Fork a process for an instance; its pid. Raises OSError when there is no room."""
        self._families[serial].touched = True
        pid = fork_child(place, descriptors, run)
        self._roots[pid] = Root(pid, serial, kind)
        return pid

    def adopt(self, pid: int, serial: int) -> bool:
        """Take the copy of a session for what it says it is, if it can be."""
        process = look_up(pid)
        uid = self._families[serial].uid
        if process is None or process.parent != os.getpid() or pid in self._roots:
            return False
        if uid is not None and process.uids != {uid}:
            return False
        self._roots[pid] = Root(pid, serial, "session")
        return True

    def collect(self) -> list[tuple[Root, int]]:
        """Roots that ended since the last call, with exit codes; what they left behind has ended too."""
        self._reap()
        ended: list[tuple[Root, int]] = []
        while self._ended:
            now, self._ended = self._ended, []
            ended += now
            if any(root.kind not in HELPERS for root, _ in now):
                self.end_strays()
        return ended

    def _reap(self) -> None:
        killing.reap(self._note)

    def _note(self, pid: int, code: int) -> None:
        root = self._roots.pop(pid, None)
        if root is None:
            self._lodgings.errands.ended(pid, code)
        else:
            self._ended.append((root, code))

    def owns(self, serial: int, pid: int) -> bool:
        """Whether a root is an instance's."""
        root = self._roots.get(pid)
        return root is not None and root.serial == serial

    @property
    def _owned(self) -> set[int]:
        """Return the launcher's children that are no strays."""
        return self._roots.keys() | self._lodgings.errands.pids

    def _strays(self, processes: dict[int, Process]) -> set[int]:
        if self.holds:
            return set()
        own = os.getpid()
        orphans = [p.pid for p in processes.values() if p.parent == own and p.pid not in self._owned]
        return descendants(processes, orphans)

    def end_strays(self) -> bool:
        """End every child of ours that no instance owns, with what is below it."""
        if self.holds or self._owned >= set(children()):
            return True
        self._catch_orphans()
        if killing.end(lambda: self._strays(snapshot()), self._reap):
            return True
        # Something forks faster than we look: its whole user id goes.
        processes = snapshot()
        uids = {uid for pid in self._strays(processes) for uid in processes[pid].uids}
        for uid in uids & {family.uid for family in self._families.values()}:
            self._end_uid(uid)
        return not self._strays(snapshot())

    def end_root(self, pid: int) -> bool:
        """End one root with everything below it, and the strays."""

        def look() -> set[int]:
            processes = snapshot()
            return descendants(processes, {pid} & self._roots.keys()) | self._strays(processes)

        self._catch_orphans()
        return killing.end(look, self._reap)

    def _catch_orphans(self) -> None:
        """Kill strays the moment they become ours.

        Without user ids, what forks and ends faster than a look at the process table can only be met here:
        as long as it goes on, one of it is our child.
        """
        quiet = 0 if not (self.config.drop_uids or self.holds) else _QUIET_LOOKS
        deadline = time.monotonic() + _HUNT_S
        while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
            self._reap()
            orphans = [pid for pid in children() if pid not in self._owned]
            quiet = 0 if orphans else quiet + 1
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def end_agent(self, serial: int) -> bool:
        """End every process of an instance's agent."""
        family = self._families[serial]
        if not family.touched:
            return True
        if family.uid is not None and family.members == {serial}:
            return self._end_uid(family.uid)
        self._catch_orphans()
        return killing.end(self._tree_of(serial), self._reap)

    def kill_agent(self, serial: int) -> bool:
        """End an instance's agent and keep candidates from what it left open."""
        return self.end_agent(serial) and self._lodgings.close(self._families[serial])

    def freeze_agent(self, serial: int) -> bool:
        """Stop an instance's agent and keep candidates from what it left open."""
        return self.signal_agent(serial, signal.SIGSTOP) and self._lodgings.close(self._families[serial])

    def end_candidate(self, serial: int) -> bool:
        """End an instance's candidate and do away with what it wrote; False when a process is left."""
        if not self._lodgings.has_candidate(serial):
            return True
        uid = self._lodgings.candidate_uid(serial)
        tree = self._tree_of(serial, candidate=True)
        ended = killing.end(tree, self._reap) if uid is None else self._end_uid(uid)
        if not ended:
            self._left.setdefault(serial, []).append(f"processes of candidate {serial}")
        self._lodgings.clear_candidate(serial)
        return ended

    def signal_agent(self, serial: int, number: signal.Signals) -> bool:
        """Stop or resume every process of an instance's agent."""
        family = self._families[serial]
        uid = family.uid if family.members == {serial} else None
        look = self._tree_of(serial) if uid is None else killing.holders({uid})
        if uid is None or not killing.signal_uid(uid, self.config.sweeper_uid, number):
            killing.signal_all(look, number)
        return number != signal.SIGSTOP or killing.await_stopped(look)

    def _tree_of(self, serial: int, candidate: bool = False) -> Callable[[], set[int]]:
        def look() -> set[int]:
            processes = snapshot()
            roots = [
                root.pid
                for root in self._roots.values()
                if root.serial == serial and (root.kind == "candidate") == candidate
            ]
            return descendants(processes, roots) | self._strays(processes)

        return look

    def _end_uid(self, uid: int) -> bool:
        for pid in self._roots_of(uid):
            os.kill(pid, signal.SIGKILL)
        # What they leave behind becomes our child. Where there is none, as mostly, all is dead already.
        if self._await_end(uid):
            return True
        if killing.signal_uid(uid, self.config.sweeper_uid, signal.SIGKILL):
            self._await_end(uid)
        # The look afterwards is the proof, and the way out when no process could be made for the first.
        return killing.end(killing.holders({uid}), self._reap)

    def _await_end(self, uid: int) -> bool:
        """Give the killed a moment to be dead; True when they are, and nothing came of them."""
        deadline = time.monotonic() + _DYING_S
        while time.monotonic() < deadline:
            self._reap()
            if not self._roots_of(uid):
                return not self.holds and self._owned >= set(children())
            time.sleep(0.0003)
        return False

    def _roots_of(self, uid: int) -> list[int]:
        return [root.pid for root in self._roots.values() if self._uid_of(root) == uid]

    def _uid_of(self, root: Root) -> int | None:
        if root.kind == "candidate":
            return self._lodgings.candidate_uid(root.serial)
        family = self._families.get(root.serial)
        return None if family is None else family.uid

    def release(self, serial: int, done: Callable[[list[str]], None]) -> None:
        """An instance moves out: end its processes, remove its files; ``done`` gets what could not be."""
        family = self._families.get(serial)
        if family is None or not family.touched:
            self._forget(serial)
            done([])
            return
        left: list[str] = []
        if not self.end_agent(serial):
            left.append(f"processes of {serial}")
        self.end_candidate(serial)
        left += self._left.get(serial, [])
        self._forget(serial)
        self._lodgings.clear(serial, family, lambda rest: done(left + rest))

    def _forget(self, serial: int) -> None:
        family = self._families.pop(serial, None)
        if family is not None:
            family.members.discard(serial)
        self._left.pop(serial, None)

    def mark_clean(self) -> None:
        """What lies in the shared directories now belongs to the world, not to an agent."""
        self._lodgings.janitor.mark()

    def reset(self) -> list[str]:
        """Everybody moves out; what is left anywhere in the box."""
        leaving = dict(self._families)
        for serial in leaving:
            self.end_agent(serial)
            self.end_candidate(serial)
            self._forget(serial)
        uids = self._lodgings.clear_all(leaving)
        self._lodgings.errands.await_all(self._reap)
        if not self.end_everything():
            return ["processes"]
        return self._lodgings.janitor.clean_all(leaving, uids)

    def end_everything(self) -> bool:
        """End every process that came from us; workers and zygote are not among them."""
        self.holds = 0

        def look() -> set[int]:
            processes, config = snapshot(), self.config
            found = descendants(processes, [os.getpid()]) - {os.getpid()}
            if config.drop_uids:
                ours = range(config.uid_base, config.uid_base + config.uid_count)
                found |= {p.pid for p in processes.values() if any(uid in ours for uid in p.uids)}
            return found

        return killing.end(look, self._reap)
