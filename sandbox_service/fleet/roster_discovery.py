"""Which supervisors Ray runs in a fleet, and which nodes still lack one.

A supervisor is a detached actor ``supervisor-<name>`` in the fleet's namespace, one a node. Its name is
made from the fleet and the node's host name, so that it is the same after a restart of everything.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sandbox_service.supervisor.actor import SupervisorActor
from sandbox_service.supervisor.seat import Seat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ray.actor import ActorHandle

    from sandbox_service.supervisor.seat import CoreBuilder, TlsFiles

__all__ = ["Roster", "host_name_part"]

PREFIX = "supervisor-"
ANSWER_S = 2.0
"""How long a supervisor may take to say what ails it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Roster:
    """The fleet as Ray's control plane knows it. Its methods block, and belong into a thread."""

    fleet: str
    """Namespace of the actors; ``[a-z0-9-]+``."""
    build_core: CoreBuilder
    tcp: bool = False
    """Supervisors listen for gateways of other nodes as well."""
    tls: TlsFiles | None = None

    def find(self) -> dict[str, ActorHandle[SupervisorActor]]:
        """Actor handles by supervisor name, the unanswering ones included."""
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
        """Host names of the living nodes by node id."""
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return {node["NodeID"]: node["NodeManagerHostname"] for node in nodes if node["Alive"]}

    def bury(
        self, handles: Mapping[str, ActorHandle[SupervisorActor]], seated: Mapping[str, str]
    ) -> set[str]:
        """End the supervisors whose node is gone; their names. Ray would wait for the node for ever."""
        alive = self.nodes()
        dead = {name for name in handles if name in seated and seated[name] not in alive}
        for name in dead:
            logger.warning("supervisor %s went with its node", name)
            ray.kill(handles[name], no_restart=True)
        return dead

    def start_missing(self, known: Collection[str], seated: Mapping[str, str]) -> list[str]:
        """Start a supervisor on every node that lacks one; the names of the new ones.

        ``known`` are the names of all supervisors, ``seated`` the node of each that answers. While one of
        a host does not answer, its nodes are left alone: it may be about to come back.
        """
        started: list[str] = []
        for node_id, host in sorted(self.nodes().items()):
            part = host_name_part(self.fleet, host)
            silent = [name for name in known if name.startswith(part) and name not in seated]
            if node_id in seated.values() or silent:
                continue
            name = _free_name(part, {*known, *started})
            self._start(name, node_id)
            started.append(name)
        return started

    def failures(self) -> list[str]:
        """What keeps supervisors from starting; of those that answer at once."""
        asked: dict[str, Any] = {name: handle.failure.remote() for name, handle in self.find().items()}
        done = _wait(list(asked.values()), ANSWER_S)
        said = {name: ray.get(answer) for name, answer in asked.items() if answer in done}
        return [f"supervisor {name}: {failure}" for name, failure in said.items() if failure]

    def drain(self, handles: Iterable[ActorHandle[SupervisorActor]], timeout_s: float) -> None:
        """Have supervisors refuse new instances and let what runs finish."""
        _wait([handle.drain.remote() for handle in handles], timeout_s)

    def end(self, handles: Iterable[ActorHandle[SupervisorActor]], timeout_s: float) -> bool:
        """Drain supervisors, have them destroy their boxes, and end them; whether all did so in time."""
        handles = list(handles)
        stopping = [handle.stop.remote() for handle in handles]
        done = _wait(stopping, timeout_s)
        for handle in handles:
            ray.kill(handle, no_restart=True)
        return len(done) == len(stopping)

    def _start(self, name: str, node_id: str) -> None:
        seat = Seat(name=name, fleet=self.fleet, tcp=self.tcp, tls=self.tls)
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
        ).remote(seat, self.build_core)
        logger.info("started supervisor %s on node %s", name, node_id)


def host_name_part(fleet: str, host: str) -> str:
    """The beginning of the names of a host's supervisors."""
    return "s" + hashlib.blake2b(f"{fleet}\0{host}".encode(), digest_size=5).hexdigest()


def _free_name(part: str, taken: Collection[str]) -> str:
    number = 0
    while f"{part}x{number}" in taken:
        number += 1
    return f"{part}x{number}"


def _wait(answers: list[Any], timeout_s: float) -> list[Any]:
    """The answers that came in time and are no failures."""
    if not answers:
        return []
    done, late = ray.wait(answers, num_returns=len(answers), timeout=timeout_s)
    good = []
    for answer in done:
        try:
            ray.get(answer)
            good.append(answer)
        except ray.exceptions.RayError as error:
            logger.warning("a supervisor failed: %s", error)
    if late:
        logger.warning("%d supervisors did not answer within %.0f s", len(late), timeout_s)
    return good
