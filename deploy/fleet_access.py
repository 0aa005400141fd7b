"""Reach the supervisors of a running fleet on its Ray cluster, as an operator on one of its nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sandbox_contract.inspection import SupervisorStats
from sandbox_service.fleet.draining import PlacedSupervisor
from sandbox_service.supervisor.closing import stop_s

from .serve_app import fleet_name

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from sandbox_service.fleet.roster import Roster
    from sandbox_service.supervisor.options import SupervisorAddress


_CALL_S = 10.0
"""Longest time for calls of supervisors that are made at once."""


class FleetUnreachableError(Exception):
    """No Ray cluster answers; the text says where it was looked for."""


class RayFleet:
    """A fleet through Ray's control plane."""

    def __init__(self, roster: Roster, longest_stop_s: float = 60.0) -> None:
        self._roster = roster
        self._longest_stop_s = longest_stop_s
        """Longest time in which a supervisor stops."""

    def placed(self) -> Sequence[PlacedSupervisor]:
        import ray

        handles: Mapping[str, Any] = self._roster.find()
        asked = {name: [handle.address.remote(), handle.stats.remote()] for name, handle in handles.items()}
        calls = [call for pair in asked.values() for call in pair]
        if calls:
            # For all at once: a node that ends has no time to wait for each one that hangs or is gone.
            ray.wait(calls, num_returns=len(calls), timeout=_CALL_S)
        answers = {name: self._ask(pair, timeout_s=0.0) for name, pair in asked.items()}
        # One that starts has no address and no statistics.
        return [placed_supervisor(name, *pair) for name, pair in answers.items() if pair and all(pair)]

    def names(self) -> Collection[str]:
        return tuple(self._roster.find())

    def begin_drain(self, name: str, *, move: bool, kept_node: str | None = None) -> None:
        if kept_node is not None:
            from sandbox_service.fleet.scaler import expect_replacement

            # First, so that the scaler asks for no other node when it sees the drain.
            expect_replacement(self._roster, name, kept_node)
        for handle in self._named(name):
            self._ask([handle.begin_drain.remote(move=move)])

    def cancel_drain(self, name: str) -> None:
        for handle in self._named(name):
            self._ask([handle.cancel_drain.remote()])

    def stop(self, name: str) -> bool:
        answers = [self._ask([handle.stop.remote()], self._longest_stop_s) for handle in self._named(name)]
        return None not in answers

    def remove(self, name: str) -> bool:
        return self._roster.end_all(self._named(name), self._longest_stop_s)

    def _named(self, name: str) -> list[Any]:
        """Return the handle of a supervisor; nothing of one that has left the fleet meanwhile."""
        return [handle for known, handle in self._roster.find().items() if known == name]

    def _ask(self, calls: list[Any], timeout_s: float = _CALL_S) -> list[Any] | None:
        """Return the answers; None if the supervisor does not give them in time."""
        import ray

        try:
            answers: list[Any] = ray.get(calls, timeout=timeout_s)
        except (ray.exceptions.RayError, TimeoutError):
            return None
        return answers


def placed_supervisor(name: str, address: SupervisorAddress, stats: bytes) -> PlacedSupervisor:
    """Return a supervisor from its answers."""
    numbers = SupervisorStats.model_validate_json(stats)
    return PlacedSupervisor(
        name=name,
        host=numbers.node,
        address=address.host,
        node_id=address.node_id,
        draining=numbers.draining,
        instances=numbers.live_instances,
    )


@contextlib.contextmanager
def running_fleet(config: ServiceConfig, address: str | None = None) -> Iterator[RayFleet]:
    """Be connected to the cluster at an address; by default the configured one, or that of this node.

    Raises FleetUnreachableError.
    """
    import ray

    from sandbox_service.fleet.roster import Roster

    from .supervisor_core import core_builder

    address = address or config.fleet.address
    try:
        ray.init(address=address or "auto", log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = address or "this machine"
        raise FleetUnreachableError(
            f"no Ray cluster answers on {where}: run this on a node of the cluster, in the environment that "
            f"`sandbox-service node-env` prints, or set fleet.address ({error})"
        ) from error
    try:
        yield RayFleet(Roster(fleet_name(config), core_builder(config), tcp=True), stop_s(config.deadline))
    finally:
        ray.shutdown()
