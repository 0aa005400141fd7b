"""Run agents in host processes: start them, spread episodes over them, and replace those that die or hang."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from local_processes.process_tree import end_tree
from trainer.errors import AgentFailed, AgentLost, ConfigError

from .host_command import host_command
from .host_messages import HostOrder, HostReport

if TYPE_CHECKING:
    from .host_messages import HostSettings
    from .launcher import AgentJob

logger = logging.getLogger(__name__)

_MARKER = "TRAINER_AGENT_HOST"
"""Environment variable by which the processes of a killed host are found."""
_LONGEST_LINE = 256 * 2**20
_PING_S = 5.0
_HUNG_S = 60.0
_CANCEL_S = 15.0
"""Seconds that a cancelled agent may take to end, before its host is replaced."""
_END_S = 15.0
_AGAIN_S = 1.0


class HostProcess:
    """One host, and the jobs that it runs."""

    def __init__(self, process: asyncio.subprocess.Process, marker: str) -> None:
        self._process = process
        self._marker = marker
        self._jobs: dict[int, asyncio.Future[None]] = {}
        self._numbers = 0
        self._answered = asyncio.get_running_loop().time()
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.cancel_s = _CANCEL_S
        self.leaving = asyncio.Event()
        """It gets no more jobs: it has ended, or an agent in it cannot be ended."""
        self.idle = asyncio.Event()
        """It has no jobs."""
        self.idle.set()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def load(self) -> int:
        """Jobs in progress."""
        return len(self._jobs)

    @classmethod
    async def start(
        cls,
        settings: HostSettings,
        folder: Path | None,
        log: Path | None,
        hidden: frozenset[str],
        python: Path | None = None,
    ) -> HostProcess:
        """Start a host and wait until it is ready. Raises ConfigError if its agent cannot be run."""
        ours, theirs = socket.socketpair()
        marker = secrets.token_hex(8)
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        words, path = host_command(python)
        environment |= {"PYTHONPATH": path, _MARKER: marker}
        output = log.open("ab") if log is not None else None
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                str(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs.fileno(),),
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ConfigError(f"agents cannot be run in {folder} by {words[0]}: {error}") from error
        finally:
            theirs.close()
            if output is not None:
                output.close()
        host = cls(process, marker)
        try:
            await host._greet(settings, ours)
        except BaseException:
            await host.end_process()
            raise
        return host

    async def run(self, job: AgentJob) -> None:
        """Run one agent; see AgentLauncher."""
        self._numbers += 1
        number = self._numbers
        done = self._jobs[number] = asyncio.get_running_loop().create_future()
        self.idle.clear()
        try:
            self._send(HostOrder.run(number, job))
            await asyncio.shield(done)
        except asyncio.CancelledError:
            self._send(HostOrder(kind="cancel", number=number))
            await asyncio.wait({done}, timeout=self.cancel_s)
            if not done.done():
                logger.warning(
                    "the agent of episode %s does not end; its host is replaced", job.trajectory_id
                )
                self.leaving.set()
            raise
        finally:
            if done.done() and not done.cancelled():
                done.exception()
            del self._jobs[number]
            if not self._jobs:
                self.idle.set()

    async def end_process(self) -> None:
        """End the process and all that its agents have started. Idempotent."""
        own = asyncio.current_task()
        for task in self._tasks:
            if task is not own:
                task.cancel()
        if self._writer is not None:
            self._writer.close()  # the host ends at the end of its connection
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S if self._writer is not None else 0.0):
                await self._process.wait()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._lose()
        await asyncio.to_thread(_sweep, self._marker)

    async def _greet(self, settings: HostSettings, connection: socket.socket) -> None:
        reader, self._writer = await asyncio.open_connection(sock=connection, limit=_LONGEST_LINE)
        self._writer.write(settings.line())
        line = await reader.readline()
        report = HostReport.model_validate_json(line) if line else HostReport(kind="unusable", error=None)
        if report.kind == "unusable":
            raise ConfigError(report.error or "the process for agents exited while it started")
        self._answered = asyncio.get_running_loop().time()
        self._tasks = [asyncio.create_task(self._read(reader)), asyncio.create_task(self._ping())]

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                self._hear(HostReport.model_validate_json(line))
        await self.end_process()

    def _hear(self, report: HostReport) -> None:
        self._answered = asyncio.get_running_loop().time()
        done = self._jobs.get(report.number) if report.kind == "ended" else None
        if done is None or done.done():
            return
        if report.error is None:
            done.set_result(None)
        else:
            done.set_exception(AgentFailed(report.error))

    async def _ping(self) -> None:
        """End the process when it has been silent for long: its event loop is blocked."""
        while True:
            await asyncio.sleep(_PING_S)
            self._send(HostOrder(kind="ping"))
            if asyncio.get_running_loop().time() - self._answered > _HUNG_S:
                logger.warning("agent host %d has not answered for %g s and is ended", self.pid, _HUNG_S)
                self._process.kill()
                return

    def _send(self, order: HostOrder) -> None:
        if self._writer is None or self._writer.is_closing():
            raise AgentLost("the process that runs agents has ended")
        self._writer.write(order.line())

    def _lose(self) -> None:
        self.leaving.set()
        for done in self._jobs.values():
            if not done.done():
                done.set_exception(AgentLost(f"the process that ran the agent, {self.pid}, has ended"))


def _sweep(marker: str) -> None:
    """End processes that carry the marker of a host, which was killed before it could do so."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(_MARKER) == marker:
                end_tree(process, None, _END_S)


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
        cancel_s: float = _CANCEL_S,
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
        starting = [self._started(place) for place in range(self._processes)]
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        hosts = [each for each in outcomes if isinstance(each, HostProcess)]
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        if failures:
            await asyncio.gather(*(host.end_process() for host in hosts))
            if isinstance(failures[0], TimeoutError):
                limit = f"agent.start_timeout_s, {self._start_timeout_s:g} s"
                raise ConfigError(f"the agent took longer to import than {limit}") from None
            raise failures[0]
        self._hosts = dict(enumerate(hosts))
        self._keepers = [asyncio.create_task(self._keep(place)) for place in range(self._processes)]

    async def run(self, job: AgentJob) -> None:
        """See AgentLauncher."""
        await (await self._chosen()).run(job)

    async def close(self) -> None:
        """See AgentLauncher."""
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
        async with asyncio.timeout(self._start_timeout_s):
            host = await HostProcess.start(self._settings, self._folder, log, self._hidden, self._python)
        host.cancel_s = self._cancel_s
        return host

    async def _chosen(self) -> HostProcess:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while not (there := [host for host in self._hosts.values() if not host.leaving.is_set()]):
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
            ending = asyncio.create_task(_end_when_idle(host))
            self._leaving.add(ending)
            ending.add_done_callback(self._leaving.discard)
            while self._hosts[place] is host:
                try:
                    self._hosts[place] = await self._started(place)
                    self._started_one.set()
                except (ConfigError, TimeoutError) as error:
                    logger.warning("no agent host could be started: %s", error)
                    await asyncio.sleep(_AGAIN_S)


async def _end_when_idle(host: HostProcess) -> None:
    try:
        await host.idle.wait()
    finally:
        await host.end_process()
