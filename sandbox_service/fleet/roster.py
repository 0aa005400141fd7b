"""Find and start a fleet's supervisors in Ray.

A supervisor is a detached actor ``supervisor-<name>`` in the fleet's namespace, one per node. Its name is
derived from the fleet and the node's host name, so that it is the same after everything was restarted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ray
from ray.autoscaler.sdk import request_resources
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sandbox_service.supervisor.actor import SupervisorActor
from sandbox_service.supervisor.options import SupervisorOptions, running_version
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from sandbox_service.supervisor.options import CoreBuilder, TlsFiles

    from .scaling import ScalingPolicy


PREFIX = "supervisor-"
ANSWER_S = 2.0
"""Longest time in which a supervisor sends its failure."""

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Roster:
    """The fleet as Ray's control plane knows it. Its methods block, so call them in a thread."""

    fleet: str
    """Namespace of the actors; ``[a-z0-9-]+``."""
    build_core: CoreBuilder
    tcp: bool = False
    """Supervisors also listen for gateways on other nodes."""
    tls: TlsFiles | None = None
    node_resource: str | None = None
    """Custom resource of the nodes that get a supervisor; None for every node."""
    scaling: ScalingPolicy | None = None
    """None if supervisors are started on all such nodes, whatever the demand."""
    settings: str = ""
    """Digest of the settings behind ``build_core``."""
    hung_s: float = 60.0
    """Silence of a running supervisor after which it counts as lost."""
    version: str = field(default_factory=running_version)
    """Version of the service that gateways and supervisors have in common."""

    def find(self) -> dict[str, ActorHandle[SupervisorActor]]:
        """Return actor handles by supervisor name, including those that do not answer."""
        handles = {}
        for actor in ray.util.list_named_actors(all_namespaces=True):
            if actor["namespace"] != self.fleet or not actor["name"].startswith(PREFIX):
                continue
            try:
                handle = ray.get_actor(actor["name"], namespace=self.fleet)
            except ValueError:
                continue  # It ended between the two calls.
            handles[actor["name"].removeprefix(PREFIX)] = handle
        return handles

    def nodes(self) -> dict[str, str]:
        """Return the host names of the living nodes by node id."""
        return {node_id: host for node_id, host, _ in self._living()}

    def sandbox_nodes(self) -> dict[str, str]:
        """Return the host names of the living nodes that may get a supervisor, by node id."""
        wanted = self.node_resource
        return {node_id: host for node_id, host, has in self._living() if wanted is None or has.get(wanted)}

    def _living(self) -> Iterable[tuple[str, str, Mapping[str, float]]]:
        nodes: list[Mapping[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        for node in nodes:
            if node["Alive"]:
                yield str(node["NodeID"]), str(node["NodeManagerHostname"]), node["Resources"]

    def end_lost(
        self, handles: Mapping[str, ActorHandle[SupervisorActor]], placed: Mapping[str, str]
    ) -> set[str]:
        """Kill the supervisors whose node is gone, for which Ray would wait for ever; return their names."""
        alive = self.nodes()
        dead = {name for name in handles if name in placed and placed[name] not in alive}
        for name in dead:
            logger.warning("supervisor_lost", supervisor=name)
            ray.kill(handles[name], no_restart=True)
        return dead

    def restart_hung(self, name: str, handle: ActorHandle[SupervisorActor]) -> None:
        """Kill a supervisor that does not answer, also one whose process is stopped; Ray starts it again."""
        logger.error("supervisor_hung", supervisor=name, silent_s=self.hung_s)
        ray.kill(handle, no_restart=False)

    def start_missing(
        self,
        known: Collection[str],
        placed: Mapping[str, str],
        limit: int | None = None,
        *,
        nodes: Collection[str] | None = None,
    ) -> list[str]:
        """Start a supervisor on every sandbox node that lacks one, and return the names of the new ones.

        ``known`` are the names of all supervisors, ``placed`` the node of each that answers. While a
        supervisor of a host does not answer, the host's nodes get none: it may be about to come back. At most
        ``limit`` are started, and on ``nodes`` only if they are given.
        """
        started: list[str] = []
        for node_id, host in sorted(self.sandbox_nodes().items()):
            if len(started) == limit:
                break
            part = host_name_part(self.fleet, host)
            silent = [name for name in known if name.startswith(part) and name not in placed]
            if node_id in placed.values() or silent or (nodes is not None and node_id not in nodes):
                continue
            name = _free_name(part, {*known, *started})
            self._start(name, node_id)
            started.append(name)
        return started

    def request_nodes(self, number: int) -> None:
        """Ask Ray's autoscaler for so many sandbox nodes, in place of all earlier requests."""
        request_resources(bundles=[{self.node_resource: 1}] * number)

    def failures(self) -> list[str]:
        """Return why supervisors do not start, for those that answer at once."""
        asked: Mapping[str, Any] = {name: handle.failure.remote() for name, handle in self.find().items()}
        done = _wait(list(asked.values()), ANSWER_S)
        reported = {name: ray.get(answer) for name, answer in asked.items() if answer in done}
        return [f"supervisor {name}: {failure}" for name, failure in reported.items() if failure]

    def drain_all(self, handles: Iterable[ActorHandle[SupervisorActor]], timeout_s: float) -> None:
        """Have supervisors refuse new instances, and wait until running operations finish."""
        _wait([handle.drain.remote() for handle in handles], timeout_s)

    def begin_stop(self, handles: Iterable[ActorHandle[SupervisorActor]]) -> None:
        """Have supervisors stop, and wait for none: ``end_all`` does. Until then no other one is started."""
        for handle in handles:
            handle.stop.remote()

    def end_all(self, handles: Iterable[ActorHandle[SupervisorActor]], timeout_s: float) -> bool:
        """Drain supervisors, have them destroy their boxes, kill them; return whether all did so in time."""
        handles = list(handles)
        stopping = [handle.stop.remote() for handle in handles]
        done = _wait(stopping, timeout_s)
        for handle in handles:
            ray.kill(handle, no_restart=True)
        return len(done) == len(stopping)

    def _start(self, name: str, node_id: str) -> None:
        options = SupervisorOptions(name, self.fleet, self.tcp, self.tls, self.version)
        # Every gateway may find it missing at the same moment, and the first to ask starts it. Ray repeats no
        # call: a drain that a restart interrupted must not reach the new process.
        ray.remote(SupervisorActor).options(
            name=PREFIX + name,
            namespace=self.fleet,
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=0,
            num_cpus=0,
            max_concurrency=64,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        ).remote(options, self.build_core)
        logger.info("supervisor_started", supervisor=name, node_id=node_id)


def host_name_part(fleet: str, host: str) -> str:
    """Return the prefix of the names of a host's supervisors."""
    return "s" + hashlib.blake2b(f"{fleet}\0{host}".encode(), digest_size=5).hexdigest()


def _free_name(part: str, taken: Collection[str]) -> str:
    number = 0
    while f"{part}x{number}" in taken:
        number += 1
    return f"{part}x{number}"


def _wait(answers: list[Any], timeout_s: float) -> list[Any]:
    """Return the answers that came in time and are not failures."""
    if not answers:
        return []
    done, late = ray.wait(answers, num_returns=len(answers), timeout=timeout_s)
    good = []
    for answer in done:
        try:
            ray.get(answer)
            good.append(answer)
        except ray.exceptions.RayError as error:
            logger.warning("supervisor_call_failed", reason=str(error))
    if late:
        logger.warning("supervisors_late", supervisors=len(late), timeout_s=timeout_s)
    return good
