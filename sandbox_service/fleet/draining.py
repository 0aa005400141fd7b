"""Drain a node: no new instances begin there, those that can be rebuilt move, and the rest end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

POLL_S = 0.5
"""Pause between two looks at the instances that are left."""
LOOKS = 3
"""Looks in a row at which another cluster must have supervisors."""


class UnknownNodeError(Exception):
    """No supervisor runs on a node of that name; the text lists those that do."""


@dataclass(frozen=True, slots=True)
class PlacedSupervisor:
    """A supervisor, where it runs, and its instances."""

    name: str
    host: str
    """Host name of its node."""
    address: str
    """IP address of its node."""
    node_id: str
    """Ray's id of its node."""
    draining: bool
    instances: int

    def is_on(self, node: str) -> bool:
        """Return whether a name that an operator gives means this supervisor or its node."""
        return node in (self.name, self.host, self.address, self.node_id)


class Fleet(Protocol):
    """The supervisors of a fleet, as an operator reaches them."""

    def placed(self) -> Sequence[PlacedSupervisor]:
        """Return the supervisors that answer."""
        ...

    def names(self) -> Collection[str]:
        """Return the names of all supervisors, also of those that start, stop or hang."""
        ...

    def begin_drain(self, name: str, *, move: bool) -> None:
        """Have a supervisor refuse new instances; with ``move`` hand over those that can be rebuilt."""
        ...

    def cancel_drain(self, name: str) -> None:
        """Have a supervisor take new instances again."""
        ...

    def stop(self, name: str) -> bool:
        """Have a supervisor give up its instances and destroy its boxes; return whether it did so in time.

        It stays stopped until its node ends.
        """
        ...

    def remove(self, name: str) -> bool:
        """Do the same and forget the supervisor, so that a gateway starts another on its node."""
        ...


def drain_node(
    fleet: Fleet,
    node: str,
    timeout_s: float,
    report: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
    *,
    successors: Callable[[], Collection[str]] = tuple,
) -> int:
    """Drain all supervisors of a node; return the number of instances that are left there at the end.

    Instances are handed over only when a supervisor elsewhere takes new ones. The drain goes on after the
    timeout. ``successors`` names supervisors of the store: once no other node of this cluster takes instances
    and another cluster has supervisors, the wait is over, since clients speak to that one. A supervisor of
    this cluster that dies meanwhile is remembered as one. Raises UnknownNodeError.
    """
    chosen = _chosen(fleet.placed(), node)
    deadline = now() + timeout_s
    began: dict[str, bool] = {}
    left = -1
    own: set[str] = set()
    others_seen = 0
    while True:
        placed = {each.name: each for each in fleet.placed()}
        move = any(not each.draining and name not in chosen for name, each in placed.items())
        for name in chosen & placed.keys():
            # Again when another node joins or the last one goes, and after a restart, which forgets it.
            if began.get(name) != move or not placed[name].draining:
                fleet.begin_drain(name, move=move)
                began[name] = move
        remaining = sum(placed[name].instances for name in chosen & placed.keys())
        if remaining != left:
            left = remaining
            report(_progress(left, move=move))
        if not left and all(placed[name].draining for name in chosen & placed.keys()):
            return 0
        own |= placed.keys() | set(fleet.names())
        others_seen = others_seen + 1 if not move and set(successors()) - own else 0
        if others_seen == LOOKS:
            report("another cluster has taken over: what is left goes on there, or is lost")
            return left
        if now() >= deadline:
            return left
        pause(POLL_S)


def stop_node(fleet: Fleet, node: str) -> int:
    """Stop the supervisors of a node with what is left there; return the number that did not stop in time.

    Instances that can be rebuilt go on elsewhere at their next call, and all others are lost at once. Raises
    UnknownNodeError.
    """
    return sum(not fleet.stop(name) for name in sorted(_chosen(fleet.placed(), node)))


def replace_supervisors(
    fleet: Fleet,
    node: str,
    timeout_s: float,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> bool:
    """Have gateways start new supervisors on a node, with the gateways' configuration.

    Returns whether the node has a supervisor again in time. Instances that are left can be rebuilt there or
    elsewhere, or are lost, as by ``stop_node``. Raises UnknownNodeError.
    """
    placed = fleet.placed()
    chosen = _chosen(placed, node)
    nodes = {each.node_id for each in placed if each.name in chosen}
    for name in sorted(chosen):
        fleet.remove(name)
    deadline = now() + timeout_s
    while not nodes <= {each.node_id for each in fleet.placed()}:
        if now() >= deadline:
            return False
        pause(POLL_S)
    return True


def cancel_drain(fleet: Fleet, node: str) -> int:
    """Have the supervisors of a node take instances again; return their number. Raises UnknownNodeError."""
    chosen = _chosen(fleet.placed(), node)
    for name in chosen:
        fleet.cancel_drain(name)
    return len(chosen)


def _chosen(placed: Sequence[PlacedSupervisor], node: str) -> set[str]:
    chosen = {each.name for each in placed if each.is_on(node)}
    if not chosen:
        known = ", ".join(sorted({each.host for each in placed})) or "none"
        raise UnknownNodeError(f"no supervisor runs on a node {node!r}; nodes with one: {known}")
    return chosen


def _progress(left: int, *, move: bool) -> str:
    where = "" if move else ", no other node takes instances over, so all of them have to end here"
    return f"{left} instances left{where if left else ''}"
