"""Hosts for the agents of ``tests.fakes.agent_functions``, and the processes that they start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil

from tests.harness.waiting import until
from trainer.agents.host_messages import HostSettings
from trainer.agents.hosts import HostedAgents

__all__ = ["ROOT", "commands", "functions", "gone", "process_starters", "started"]

ROOT = Path(__file__).parents[2]
MODULE = "tests.fakes.agent_functions"
PIDS = "PIDS_FILE"
STARTS_PROCESSES = """
echo $$ >> "$PIDS_FILE"
sleep 3600 & echo $! >> "$PIDS_FILE"
(setsid sleep 3600 & echo $! >> "$PIDS_FILE")
sleep 3600
"""
"""A command that starts a process, and one that leaves it for a session of its own; it never ends."""


def functions(name: str, **more: Any) -> HostedAgents:
    """Hosts of one function."""
    settings = HostSettings(function=f"{MODULE}:{name}")
    return HostedAgents(settings, more.pop("processes", 1), folder=ROOT, **more)


def commands(name: str, **more: Any) -> HostedAgents:
    """Hosts of a command that runs one function."""
    words = (sys.executable, "-m", MODULE, name)
    path = f"{ROOT}:{ROOT / 'clients'}"
    settings = HostSettings(command=words, python_path=path)
    return HostedAgents(settings, more.pop("processes", 1), folder=ROOT, **more)


def process_starters(pids: Path) -> HostedAgents:
    """Hosts of a command that starts others and writes down the ids of all."""
    settings = HostSettings(command=("sh", "-c", STARTS_PROCESSES), environment={PIDS: str(pids)})
    return HostedAgents(settings, 1)


async def started(pids: Path) -> list[psutil.Process]:
    """The processes that an agent wrote down, once it has."""
    await until(lambda: len(_written(pids)) >= 3)
    return [psutil.Process(pid) for pid in _written(pids)]


def _written(pids: Path) -> list[int]:
    return [int(line) for line in pids.read_text().split("\n")[:-1]] if pids.exists() else []


async def gone(*processes: psutil.Process) -> None:
    """Wait until processes have ended."""
    await until(lambda: all(_dead(process) for process in processes))


def _dead(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
