"""Run agents in host processes: spread episodes over them, and replace those that die or hang."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import AgentLost, ConfigError

from .host_process import CANCEL_S, HostProcess

if TYPE_CHECKING:
    from .host_messages import HostSettings
    from .launcher import AgentJob

logger = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Seconds between attempts to start a host in the place of one that ended."""


class HostedAgents:
    """Implements ``AgentLauncher`` over host processes: the one with the fewest jobs runs the next."""

    def __init__(
        self,
        settings: HostSettings,
        processes: int,
        *,
        folder: Path | None = None,
        logs: Path | None = None,
        start_timeout_s: float = 120.0,
        cancel_s: float = CANCEL_S,
        hidden: frozenset[str] = frozenset(),
        python: Path | None = None,
    ) -> None:
        """
        Args:
            settings: what hosts run.
            processes: number of hosts.
            folder: their working directory.
            logs: folder of their logs; by default they write where this process does.
            start_timeout_s: seconds that a host may take to start, imports included.
            cancel_s: seconds that a cancelled agent may take to end, before its host is replaced.
            hidden: environment variables that agents do not get.
            python: runs the hosts; by default what runs this process.
        """
        self._settings = settings
        self._processes = processes
        self._folder = folder
        self._logs = logs
        self._start_timeout_s = start_timeout_s
        self._cancel_s = cancel_s
        self._hidden = hidden
        self._python = python
        self._hosts: dict[int, HostProcess] = {}
        """By place, from 0."""
        self._keepers: list[asyncio.Task[None]] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._started_one = asyncio.Event()

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the running hosts."""
        return tuple(host.pid for host in self._hosts.values())

    async def start(self) -> None:
        """Start the hosts. Raises ConfigError if the agent cannot be run, or takes too long to import."""
        starting = [asyncio.create_task(self._started(place)) for place in range(self._processes)]
        try:
            # All have ended after it, also when it is cancelled.
            await asyncio.gather(*starting, return_exceptions=True)
            self._hosts = {place: task.result() for place, task in enumerate(starting)}
        except BaseException:
            started = [task.result() for task in starting if not task.cancelled() and not task.exception()]
            await asyncio.gather(*(host.end_process() for host in started))
            raise
        self._keepers = [asyncio.create_task(self._keep(place)) for place in range(self._processes)]

    async def run(self, job: AgentJob) -> None:
        """See AgentLauncher."""
        await (await self._chosen()).run(job)

    async def close(self) -> None:
        """See AgentLauncher."""
        # Keepers first: they would replace the hosts that are ended below.
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        hosts, self._hosts = tuple(self._hosts.values()), {}
        await asyncio.gather(*(host.end_process() for host in hosts))

    async def _started(self, place: int) -> HostProcess:
        log = self._logs / f"agents-{place}.log" if self._logs is not None else None
        try:
            async with asyncio.timeout(self._start_timeout_s):
                host = await HostProcess.start(self._settings, self._folder, log, self._hidden, self._python)
        except TimeoutError:
            limit = f"agent.start_timeout_s, {self._start_timeout_s:g} s"
            raise ConfigError(f"the agent took longer to import than {limit}") from None
        host.cancel_s = self._cancel_s
        return host

    async def _chosen(self) -> HostProcess:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while not (there := [host for host in self._hosts.values() if not host.leaving.is_set()]):
                    # Nothing is awaited between the look and the wait, so a start in between is not missed.
                    self._started_one.clear()
                    await self._started_one.wait()
        except TimeoutError:
            limit = f"{self._start_timeout_s:g} s"
            raise AgentLost(f"no process for agents has started within {limit}") from None
        return min(there, key=lambda host: host.load)

    async def _keep(self, place: int) -> None:
        """Replace the host of a place whenever it leaves."""
        while True:
            host = self._hosts[place]
            await host.leaving.wait()
            logger.warning("agent host %d is replaced", host.pid)
            # Its other agents play on, and the next host starts meanwhile.
            ending = asyncio.create_task(_end_when_idle(host))
            self._leaving.add(ending)
            ending.add_done_callback(self._leaving.discard)
            while self._hosts[place] is host:
                try:
                    self._hosts[place] = await self._started(place)
                    self._started_one.set()
                except Exception as error:
                    # Whatever it is: without its keeper, a place would stay empty for the rest of the run.
                    unexpected = not isinstance(error, ConfigError)
                    logger.warning("no agent host could be started: %s", error, exc_info=unexpected)
                    await asyncio.sleep(_AGAIN_S)


async def _end_when_idle(host: HostProcess) -> None:
    try:
        await host.idle.wait()
    finally:
        await host.end_process()
