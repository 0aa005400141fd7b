"""Boxes that are ordinary processes: the same runner as a child of ours, for laptops without an engine.

No security boundary, and the factory says so: agent code runs with the host's files in sight. There are
limits for each process, user ids of the box's own where we are root, and namespaces where the kernel allows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_service.environments.digests import digest
from sandbox_service.errors import ServiceError

from .box import Box
from .content import box_files
from .hardening import SCRATCH
from .host import look_around
from .launch import Places, RunnerLimits, configure, interpreter_arguments
from .namespaces import INSIDE, wrapped
from .proctree import ProcessEntry, end_tree, entry_of
from .state import SOCKET_FOLDER, SOCKET_NAME, remove_folder, storage_errors
from .uids import UidRanges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox_service.environments.base import EnvironmentSpec, Provisions
    from sandbox_service.runner.frames import Frame

    from .base import SandboxLimits
    from .host import Host
    from .state import StateDir

__all__ = ["ProcessBody", "ProcessFactory"]

log = logging.getLogger(__name__)

_END_S = 10.0
_RECORD = "record.json"
_LOG = "runner.log"
_LOG_BYTES = 4096
_NAME_PREFIX = "process-"


class ProcessBody:
    """One runner process and its folder."""

    def __init__(
        self,
        folder: Path,
        command: list[str],
        uids: range | None,
        limits: SandboxLimits,
        on_removed: Callable[[], None],
    ) -> None:
        self.name = folder.name
        self.socket = folder / SOCKET_FOLDER / SOCKET_NAME
        self._folder = folder
        self._command = command
        self._uids = uids
        self._limits = limits
        self._on_removed = on_removed
        self._spawning: asyncio.Future[subprocess.Popen[bytes]] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._entry: ProcessEntry | None = None
        self._exit: asyncio.Future[int] | None = None

    async def start(self, timeout_s: float) -> None:
        # Whoever stops waiting does not stop the thread; ``remove`` waits for what it makes.
        self._spawning = asyncio.ensure_future(asyncio.to_thread(self._spawn))
        with storage_errors("start a process box"):
            self._process = await asyncio.shield(self._spawning)
        self._exit = asyncio.ensure_future(_exit_of(self._process))

    def _spawn(self) -> subprocess.Popen[bytes]:
        blocks = self._limits.workspace_mib * 2048
        bounded = ["sh", "-c", f'ulimit -c 0 && ulimit -f {blocks} && exec "$@"', "sh", *self._command]
        with (self._folder / _LOG).open("wb") as log_file:
            process = subprocess.Popen(
                bounded,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        # Our own child that nobody has waited for is in the table, dead or alive.
        self._entry = entry_of(process.pid)
        record = {
            "pid": process.pid,
            "started": self._entry.started if self._entry else 0,
            "uids": [self._uids.start, self._uids.stop] if self._uids else None,
        }
        (self._folder / _RECORD).write_text(json.dumps(record))
        return process

    async def ended(self) -> str:
        if self._exit is None:
            return "it was never started"
        await asyncio.shield(self._exit)
        return await self.condition()

    async def condition(self) -> str:
        if self._process is None or self._process.returncode is None:
            return "the runner's process lives, but does not answer"
        said = await asyncio.to_thread(self._last_words)
        return f"exit code {self._process.returncode}{': ' + said if said else ''}"

    async def remove(self) -> None:
        if self._process is None and self._spawning is not None:
            with suppress(OSError):
                self._process = await self._spawning
        if self._process is not None:
            if self._exit is None:
                self._exit = asyncio.ensure_future(_exit_of(self._process))
            await asyncio.to_thread(end_tree, self._entry, self._uids, _END_S)
            try:
                async with asyncio.timeout(_END_S):
                    await self._exit
            except TimeoutError:
                log.warning("process %d of box %s does not end", self._process.pid, self.name)
        await asyncio.to_thread(remove_folder, self._folder)
        self._on_removed()

    def _last_words(self) -> str:
        try:
            lines = (self._folder / _LOG).read_bytes()[-_LOG_BYTES:].decode(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


class ProcessFactory:
    """Makes process boxes on this machine."""

    kind = "process"
    is_boundary = False

    def __init__(
        self,
        state: StateDir,
        node: str,
        limits: SandboxLimits,
        *,
        start_timeout_s: float = 60.0,
        instances_per_box: int = 32,
    ) -> None:
        self._state = state
        self._limits = limits
        self._start_timeout_s = start_timeout_s
        self._instances_per_box = instances_per_box
        # A process box stands for many containers, and its instances share what it can write.
        self._shared_limits = replace(
            limits,
            workspace_mib=limits.workspace_mib * instances_per_box,
            workspace_inodes=limits.workspace_inodes * instances_per_box,
        )
        self._ranges = UidRanges(node)
        self._code: dict[str, Path] = {}
        self._hosts: dict[bool, Host] = {}
        self._looking = asyncio.Lock()

    def capacity(self, spec: EnvironmentSpec) -> int:
        return self._instances_per_box if spec.agent_code else spec.instances_per_box

    async def start(
        self,
        spec: EnvironmentSpec,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> Box:
        async with self._looking:
            # Found out once: a change of the code under a running service does not reach its boxes.
            if spec.name not in self._code:
                files = await asyncio.to_thread(box_files, spec)
                self._code[spec.name] = await asyncio.to_thread(self._state.lay_out, digest(files), files)
            code = self._code[spec.name]
            packages = spec.provisions is not None
            if packages not in self._hosts:
                self._hosts[packages] = await look_around(self._state, code, self._limits, packages=packages)
            host = self._hosts[packages]
        name = _NAME_PREFIX + secrets.token_hex(5)
        uids = self._ranges.take()
        try:
            folder = await asyncio.to_thread(self._state.make_box_dir, name, host.drops_uids)
            box = self._box(host, spec, folder, code, uids, on_event, on_death)
        except ServiceError:
            self._ranges.give_back(uids)
            await asyncio.to_thread(remove_folder, self._state.boxes / name)
            raise
        await box.open(self._start_timeout_s)
        return box

    def _box(
        self,
        host: Host,
        spec: EnvironmentSpec,
        folder: Path,
        code: Path,
        uids: range,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> Box:
        own_uids = uids if host.drops_uids else None
        inside = INSIDE if host.namespaces else folder
        runner_code = INSIDE / "code" if host.namespaces else code
        runner = interpreter_arguments(str(runner_code), str(inside / SOCKET_FOLDER / SOCKET_NAME))
        command = [host.interpreter, *runner]
        if host.namespaces:
            command = wrapped(folder, code, spec.provisions, self._shared_limits, host.drops_uids, command)
        body = ProcessBody(folder, command, own_uids, self._limits, lambda: self._ranges.give_back(uids))
        limits = RunnerLimits(
            open_files=self._limits.open_files,
            processes=self._limits.pids if host.drops_uids else None,
            address_space_mib=self._limits.memory_mib,
            file_mib=self._limits.workspace_mib,
        )
        # Where neither users nor mounts tell boxes apart, agents get temporary folders in their workspaces.
        scratch = SCRATCH if host.drops_uids or host.namespaces else ()
        packages, data = _provided(spec.provisions, inside if host.namespaces else None)
        places = Places(str(inside / "workspaces"), scratch, packages, data)
        config = configure(spec, places, own_uids, limits, host.system_calls)
        return Box(body, config, self._start_timeout_s, on_event, on_death)

    async def sweep(self) -> int:
        return await asyncio.to_thread(sweep_boxes, self._state.boxes)

    async def close(self) -> None:
        self._state.close()
        self._ranges.close()


def _provided(provisions: Provisions | None, box: Path | None) -> tuple[str | None, str | None]:
    """Where a box finds packages and data: in its own folder, or where they are."""
    if provisions is None:
        return None, None
    if box is None:
        return str(provisions.packages), str(provisions.data)
    return str(box / "environment" / "packages"), str(box / "environment" / "data")


def sweep_boxes(boxes: Path) -> int:
    """End the boxes that are on record in a folder and remove what is left of them; how many there were."""
    found = [folder for folder in boxes.iterdir() if folder.is_dir()]
    for folder in found:
        try:
            record = json.loads((folder / _RECORD).read_bytes())
            pid, started, uids = int(record["pid"]), int(record["started"]), record["uids"]
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("box %s left no readable record; its processes, if any, are not ended", folder.name)
        else:
            end_tree(ProcessEntry(pid, 0, "", started), range(*uids) if uids else None, _END_S)
        remove_folder(folder)
    return len(found)


async def _exit_of(process: subprocess.Popen[bytes]) -> int:
    """The exit status of a child, without a thread that waits for it."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.wait()
