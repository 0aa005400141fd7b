"""The processes of a command: all that ever descended from it, those included whose parents are gone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

__all__ = ["Family", "Process"]

TITLES = {
    "supervisor": ("ray::SupervisorActor",),
    "engine": ("ray::EngineActor", "-engine-0"),
    "worker": ("ray::RayTrainWorker",),
    "batches": ("ray::BatchActor", "-batches"),
    "episodes": ("ray::EpisodeWorkerActor",),
}
"""Parts of the titles of Ray's processes; while a method runs it may be the actor's name."""
RAY_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Processes that outlive a killed driver's cluster by a minute: they wait for its control to come back."""
AGENT_HOST = "trainer.agents.host"
RUNNER = "sandbox_service.runner.main_process.main"


class Process(NamedTuple):
    """One process; a number that is used again is another one."""

    pid: int
    started: int


@dataclass
class Family:
    """Every process that was ever seen below some commands."""

    commands: list[int] = field(default_factory=list)
    seen: set[Process] = field(default_factory=set)

    def look(self) -> None:
        """See who is there; often enough, so that nobody is born and orphaned in between."""
        parents = dict(_everyone())
        known = set(self.commands) | {process.pid for process in self.seen if process in parents}
        while fresh := {p for p, parent in parents.items() if parent in known} - self.seen:
            self.seen |= fresh
            known |= {process.pid for process in fresh}

    def find(self, what: str) -> int:
        """The process that is meant by ``box``, ``engine`` and so on. Raises LookupError."""
        there = {process: parent for process, parent in _everyone() if process in self.seen}
        lines = {process.pid: command_line(process) for process in there}
        if what == "box":
            runners = {
                pid for pid, line in lines.items() if RUNNER in line and not line.startswith("unshare")
            }
            found = [p.pid for p, parent in there.items() if p.pid in runners and parent not in runners]
        elif what == "agents":
            found = [pid for pid, line in lines.items() if AGENT_HOST in line]
        else:
            ray = {pid: line for pid, line in lines.items() if line.startswith("ray::")}
            found = [pid for pid, line in ray.items() if any(part in line for part in TITLES[what])]
        if not found:
            raise LookupError(f"there is no {what} in {sorted(lines.values())}")
        return min(found)

    def left(self, wall_timeout_s: float, *, besides: tuple[str, ...] = ()) -> list[str]:
        """Those that are still there after a while, by their command lines, but those that begin so."""
        deadline = time.monotonic() + wall_timeout_s
        while (alive := self._alive(besides)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return alive

    def _alive(self, besides: tuple[str, ...]) -> list[str]:
        lines = {process.pid: command_line(process) for process, _ in _everyone() if process in self.seen}
        return [f"{pid} {line[:80]}" for pid, line in lines.items() if not line.startswith(besides)]


def command_line(process: Process) -> str:
    """With its title in place of it, where there is one; empty when it has ended."""
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _everyone() -> list[tuple[Process, int]]:
    """Each process with its parent's number; not those that only wait to be buried."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if after_name[0] not in "ZX":
            found.append((Process(int(folder.name), int(after_name[19])), int(after_name[1])))
    return found
