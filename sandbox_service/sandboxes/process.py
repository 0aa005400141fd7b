"""Boxes that are ordinary processes: the same runner as a child process, for machines without an engine.

They are not a security boundary, and the factory warns of it: agent code can read the host's files. There are
limits for each process, user ids of the box's own under root, and namespaces where the kernel allows them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_service.environments.digests import digest
from sandbox_service.telemetry import get_logger

from .agent_packages import offered_packages
from .box import Box
from .content import box_files, source_folder
from .covers import coverable
from .destructions import Destructions
from .hardening import SCRATCH
from .host import detect_host
from .launch import BoxFolders, RunnerLimits, configure, interpreter_arguments
from .namespaces import AGENTS, INSIDE, Enclosure
from .process_body import ProcessBody, sweep_boxes
from .state import SOCKET_FOLDER, SOCKET_NAME
from .uids import UidRanges

if TYPE_CHECKING:
    from sandbox_service.environments.base import EnvironmentSpec, Provisions
    from sandbox_service.wire.frames import Frame

    from .base import SandboxLimits
    from .host import Host
    from .state import StateDir


logger = get_logger(__name__)

_NAME_PREFIX = "process-"


class ProcessFactory:
    """Makes process boxes on this machine."""

    kind = "process"
    is_boundary = False
    idle_memory_mib = 32

    def __init__(
        self,
        state: StateDir,
        node: str,
        limits: SandboxLimits,
        *,
        start_timeout_s: float = 60.0,
        instances_per_box: int = 32,
        secret: Sequence[Path] = (),
        agent_packages: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        """``secret`` are files and folders of the service that boxes must not see."""
        self._agent_packages = agent_packages
        self._state = state
        self._secret = secret
        self._limits = limits
        self._start_timeout_s = start_timeout_s
        self._instances_per_box = instances_per_box
        self.uid_ranges = UidRanges(node)
        self._destructions = Destructions()
        self._code: dict[str, Path] = {}
        self.hosts: dict[bool, Host] = {}
        """Features of the machine for boxes, by whether they have packages, once detected."""
        self._detecting = asyncio.Lock()

    def protections(self) -> dict[str, bool]:
        # Boxes with packages may have another interpreter; a protection counts if both kinds have it.
        found = [host.protections() for host in self.hosts.values()]
        return {name: all(each[name] for each in found) for name in (found[0] if found else ())}

    def capacity(self, spec: EnvironmentSpec) -> int:
        return self._instances_per_box if spec.agent_code else spec.instances_per_box

    async def start(
        self,
        spec: EnvironmentSpec,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> Box:
        async with self._detecting:
            # Computed once: a change of the code under a running service does not reach its boxes.
            if spec.name not in self._code:
                files = await asyncio.to_thread(box_files, spec)
                self._code[spec.name] = await asyncio.to_thread(self._state.lay_out, digest(files), files)
            code = self._code[spec.name]
            packages = spec.provisions is not None
            if packages not in self.hosts:
                self.hosts[packages] = await detect_host(
                    self._state, code, self._limits, packages=packages, secret=self._secret
                )
                _log_protections(self.hosts[packages])
            host = self.hosts[packages]
        name = _NAME_PREFIX + secrets.token_hex(5)
        # From here to the box, whose ``open`` cleans up after itself, nothing is awaited: a cancellation
        # in between would leak the range of user ids.
        uids = self.uid_ranges.take()
        box = self._box(host, spec, name, code, uids, on_event, on_death)
        await box.open(self._start_timeout_s)
        return box

    def _box(
        self,
        host: Host,
        spec: EnvironmentSpec,
        name: str,
        code: Path,
        uids: range,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> Box:
        bounds = self._limits.raised_to(spec.resources)
        folder = self._state.boxes / name
        own_uids = uids if host.drops_uids else None
        inside = INSIDE if host.namespaces else folder
        runner_code = INSIDE / "code" if host.namespaces else code
        runner = interpreter_arguments(str(runner_code), str(inside / SOCKET_FOLDER / SOCKET_NAME), spec)
        command = [host.interpreter, *runner]
        private_folders: dict[str, str] = {}
        offered = offered_packages(spec, self._agent_packages)
        agents = {name: str(path) for name, path in offered.items()}
        if host.namespaces:
            env_uid = uids.start if host.drops_uids else None
            enclosure = Enclosure(
                folder,
                code,
                spec.provisions,
                self._shared(bounds),
                env_uid,
                self._hidden(host, spec),
                offered,
                spec.root_links,
            )
            command = enclosure.around(command)
            agents = {name: str(AGENTS / name) for name in offered}
            private_folders = enclosure.private_folders(bounds)
        body = ProcessBody(
            self._state, name, command, own_uids, bounds, lambda: self.uid_ranges.give_back(uids)
        )
        limits = RunnerLimits(
            open_files=bounds.open_files,
            processes=bounds.pids if host.drops_uids else None,
            address_space_mib=bounds.memory_mib,
            file_mib=bounds.largest_folder_mib,
        )
        # Where neither users nor mounts separate boxes, agents get temporary folders in their workspaces.
        scratch = SCRATCH if host.drops_uids or host.namespaces else ()
        packages, data = _provided(spec.provisions, inside if host.namespaces else None)
        places = BoxFolders(str(inside / "workspaces"), scratch, packages, data, agents, private_folders)
        config = configure(
            spec,
            places,
            own_uids,
            limits,
            host.system_calls,
            own_network=host.namespaces,
            cleanup_cpu_s=bounds.cleanup_cpu_s,
        )
        return Box(body, config, self._start_timeout_s, on_event, on_death, self._destructions)

    def _shared(self, bounds: SandboxLimits) -> SandboxLimits:
        """Return the limits of what the instances of a box share, which bound all of them together."""
        return replace(
            bounds,
            workspace_mib=bounds.workspace_mib * self._instances_per_box,
            workspace_inodes=bounds.workspace_inodes * self._instances_per_box,
            storage_mib=bounds.storage_mib * self._instances_per_box,
        )

    def _hidden(self, host: Host, spec: EnvironmentSpec) -> tuple[Path, ...] | None:
        """Return the places that a box hides: the originals of its packages and data, and the package of its
        environment, which need not be where those of the service are.
        """
        if host.hidden is None:
            return None
        own = [source_folder(spec)]
        if spec.provisions is not None:
            own.append(spec.provisions.folder.parent)
            own += [spec.provisions.operator_data] if spec.provisions.operator_data is not None else []
        return coverable([*host.hidden, *own], host.interpreter)

    async def sweep(self) -> int:
        return await asyncio.to_thread(sweep_boxes, self._state.boxes, self.uid_ranges.all)

    async def close(self) -> None:
        await self._destructions.finish_destructions()
        self._state.close()
        self.uid_ranges.close()


def _log_protections(host: Host) -> None:
    logger.warning("process_sandboxes_are_no_boundary", protections=dict(host.protections()))


def _provided(provisions: Provisions | None, box: Path | None) -> tuple[str | None, str | None]:
    """Return the paths of packages and data in a box: in its own folder, or in their real place."""
    if provisions is None:
        return None, None
    if box is None:
        return str(provisions.packages), str(provisions.data)
    return str(box / "environment" / "packages"), str(box / "environment" / "data")
