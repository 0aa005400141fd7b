"""The Ray actor that scales a fleet: one for all gateways, on the head node, which no autoscaler removes.

It asks Ray's autoscaler for nodes with the fleet's custom resource by ``request_resources``, and is the
only one that starts supervisors while it runs. A node is given back by draining its supervisor, waiting until
it has no instances, and ending it: for Ray a node with an actor is never idle, so the autoscaler removes none
that has a supervisor. One bundle for each node states the wanted size as a whole: nothing has to be counted
or undone after a restart; pending actors would have to be, and a supervisor's name depends on its node.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sandbox_contract.inspection import SupervisorStats
from sandbox_service.telemetry import configure_logging, get_logger

from .members import mismatch_of
from .scaling import FleetScale, GatewayNodes, NodeLoad, Replacements, ScalingPlan, WantedNodes, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ray.actor import ActorHandle

    from sandbox_contract.inspection import PoolStats
    from sandbox_service.supervisor.actor import SupervisorActor

    from .roster import Roster
    from .scaling import ScalingPolicy


NAME = "scaler"
ANSWER_S = 2.0
"""Longest time for a call of a supervisor or of the scaler."""
END_S = 60.0
"""Longest time in which a drained supervisor destroys its boxes; then its process is killed."""
END_SCALER_S = 10.0
"""Longest time in which a scaler ends."""
_HEAD = "node:__internal_head__"
"""Ray's resource of the head node."""

logger = get_logger(__name__)


class FleetScaler:
    """Decides every few seconds, and carries the plan out."""

    def __init__(
        self, roster: Roster, policy: ScalingPolicy, now: Callable[[], float] = time.monotonic
    ) -> None:
        configure_logging("info", json=True)
        self._roster = roster
        self._policy = policy
        self._now = now
        self._wanted = WantedNodes(policy)
        self._retiring: set[str] = set()
        self._scale = FleetScale()
        self._gateways = GatewayNodes(self._now())
        self._replaced = Replacements()
        self._ending: frozenset[str] = frozenset()
        """Supervisors that ``_end_task`` is ending."""
        self._end_task: asyncio.Task[None] | None = None
        self._rounds = asyncio.get_running_loop().create_task(self._run(), name="scale the fleet")

    async def scale(self, node_id: str) -> FleetScale:
        """Return the last decision to a replica of the gateway on a node, which is kept for it."""
        self._gateways.called(node_id, self._now())
        return self._scale

    async def expect_replacement(self, name: str, node_id: str) -> None:
        """Start another supervisor on the node of one that an operator is about to drain and to remove."""
        self._replaced.announce(name, node_id, self._now())

    async def settings(self) -> str:
        """Return the digest of the settings that its supervisors get."""
        return self._roster.settings

    async def stop(self) -> None:
        """End the decisions, cancel the drains that it began, and ask the autoscaler for nothing any more."""
        self._rounds.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._rounds
        ending = self._ending
        drained = self._retiring - ending
        handles = await asyncio.to_thread(self._roster.find) if self._retiring else {}
        await _call_each(handles, drained & handles.keys(), "cancel_drain")
        await asyncio.to_thread(self._roster.request_nodes, 0)
        if self._end_task is not None:
            # A supervisor that has begun to stop takes no instances any more.
            _, late = await asyncio.wait({self._end_task}, timeout=END_SCALER_S / 2)
            self._end_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._end_task
            if late:
                # Without this scaler they would stay, stopped, in a place that another one needs.
                stopped = [handles[name] for name in ending & handles.keys()]
                await asyncio.to_thread(self._roster.end_all, stopped, 0.0)

    async def _run(self) -> None:
        while True:
            try:
                await self._decide()
            except Exception as error:  # noqa: BLE001  # capture point: the next round tries again
                logger.warning("fleet_scaling_failed", reason=str(error))
            await asyncio.sleep(self._policy.interval_s)

    async def _decide(self) -> None:
        handles = await asyncio.to_thread(self._roster.find)
        staying = {name: handle for name, handle in handles.items() if name not in self._ending}
        answers = await asyncio.gather(*(self._report_of(*pair) for pair in staying.items()))
        now = self._now()
        reports = [load for load in answers if load is not None]
        loads = [replace(load, gateway=self._gateways.are_on(load.node_id, now)) for load in reports]
        placed = {load.supervisor: load.node_id for load in loads}
        # One that does not answer now drains all the same.
        self._retiring &= handles.keys() - {load.supervisor for load in loads if not load.draining}
        wanted = self._wanted.update(loads, now)
        waiting = self._replaced.update(loads, handles, now)
        silent = len(staying) - len(loads) + len(waiting)
        decided = plan(wanted, loads, self._retiring, silent=silent, replaced=self._replaced)
        # Before supervisors start: their nodes must not be removed meanwhile.
        await asyncio.to_thread(self._roster.request_nodes, decided.request)
        await self._carry_out(decided, handles, placed)
        if waiting:
            await asyncio.to_thread(self._roster.start_missing, set(handles), placed, nodes=waiting)
            self._replaced.settle(waiting)
        scale = FleetScale(wanted, decided.request, len(self._retiring))
        if scale != self._scale:
            logger.info(
                "fleet_scaled",
                wanted=wanted,
                requested=decided.request,
                supervisors=len(handles),
                retiring=len(self._retiring),
            )
        self._scale = scale

    async def _carry_out(
        self,
        decided: ScalingPlan,
        handles: Mapping[str, ActorHandle[SupervisorActor]],
        placed: Mapping[str, str],
    ) -> None:
        await _call_each(handles, decided.resume, "cancel_drain")
        self._retiring.difference_update(decided.resume)
        self._retiring.update(decided.drain)
        await _call_each(handles, decided.drain, "begin_drain", move=True)
        if decided.end and not self._ending:
            # Beside the rounds, since it takes as long as the slowest one needs to destroy its boxes.
            self._ending = frozenset(decided.end)
            ends = {name: (handles[name], placed[name]) for name in decided.end}
            self._end_task = asyncio.create_task(self._end(ends), name="end drained supervisors")
        if decided.start:
            await asyncio.to_thread(self._roster.start_missing, set(handles), placed, decided.start)

    async def _end(self, ends: Mapping[str, tuple[ActorHandle[SupervisorActor], str]]) -> None:
        """End drained supervisors, by name with their handles and nodes."""
        try:
            await asyncio.to_thread(self._roster.end_all, [handle for handle, _ in ends.values()], END_S)
            self._retiring.difference_update(ends)
            for name, (_, node_id) in ends.items():
                logger.info("supervisor_retired", supervisor=name, node_id=node_id)
        except Exception as error:  # noqa: BLE001  # capture point: a later round tries again
            logger.warning("fleet_scaling_failed", reason=str(error))
        finally:
            self._ending = frozenset()

    async def _report_of(self, name: str, handle: ActorHandle[SupervisorActor]) -> NodeLoad | None:
        """Return a supervisor's load; None while it starts or does not answer."""
        address, stats = await asyncio.gather(_call(handle, "address"), _call(handle, "stats"))
        if address is not None and mismatch_of(name, address, self._roster.version) is not None:
            # As an operator's drain: the node exists for Ray, and is no place for instances.
            return NodeLoad(name, draining=True, node_id=address.node_id)
        if address is None or not stats:
            return None
        return replace(load_of(SupervisorStats.model_validate_json(stats)), node_id=address.node_id)


def ensure_scaler(roster: Roster) -> None:
    """Start the fleet's scaler unless there is one. Blocks, so call it in a thread."""
    if _scaler(roster) is not None or roster.scaling is None:
        return
    nodes: list[Mapping[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    head = next(str(node["NodeID"]) for node in nodes if node["Alive"] and _HEAD in node["Resources"])
    # Every gateway may find it missing at the same moment, and the first to ask starts it.
    ray.remote(FleetScaler).options(
        name=NAME,
        namespace=roster.fleet,
        get_if_exists=True,
        lifetime="detached",
        max_restarts=-1,
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False),
    ).remote(roster, roster.scaling)
    logger.info("scaler_started", node_id=head)


def renew_scaler(roster: Roster) -> None:
    """Replace a scaler with other settings, since it would start supervisors with them. Blocks.

    A gateway calls this when it starts, and never again: while settings change, gateways with the former ones
    are still there.
    """
    handle: Any = _scaler(roster)
    if handle is not None:
        # One that does not answer starts, and another gateway has just brought it.
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            if ray.get(handle.settings.remote(), timeout=ANSWER_S) != roster.settings:
                end_scaler(roster, END_SCALER_S)
                logger.info("scaler_replaced")
    ensure_scaler(roster)


async def fleet_scale(roster: Roster, node_id: str) -> FleetScale | None:
    """Return the scaler's last decision to a gateway on a node; None if it does not answer."""
    handle = await asyncio.to_thread(_scaler, roster)
    answer = None if handle is None else await _call(handle, "scale", node_id=node_id)
    return answer if isinstance(answer, FleetScale) else None


def expect_replacement(roster: Roster, name: str, node_id: str) -> None:
    """Have the fleet's scaler, if there is one, keep a supervisor's place for its replacement. Blocks."""
    handle: Any = _scaler(roster)
    if handle is not None:
        # One that does not answer starts another node meanwhile, and takes this one when it is needed.
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            ray.get(handle.expect_replacement.remote(name, node_id), timeout=ANSWER_S)


def end_scaler(roster: Roster, timeout_s: float) -> None:
    """End the fleet's scaler, if there is one, so that supervisors can be ended. Blocks."""
    handle: Any = _scaler(roster)
    if handle is None:
        return
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(handle.stop.remote(), timeout=timeout_s)
    ray.kill(handle, no_restart=True)


def load_of(stats: SupervisorStats) -> NodeLoad:
    """Return a supervisor's load: its instances, in a box or not, and the boxes that are in use or needed."""
    demands = {name: (needed, most) for pool in stats.pools for name, needed, most in _demands_of(pool)}
    return NodeLoad(
        supervisor=stats.name,
        draining=stats.draining,
        instances=stats.live_instances,
        boxes={name: needed for name, (needed, _) in demands.items()},
        max_boxes={name: most for name, (_, most) in demands.items()},
    )


def _demands_of(pool: PoolStats) -> Iterator[tuple[str, int, int]]:
    """Yield what of an environment may become scarce, with how much is in use or needed, and the most."""
    name, capacity = pool.environment, max(1, pool.capacity)
    yield name, pool.own_busy + math.ceil((pool.queued - pool.image_queued) / capacity), pool.max_boxes
    if pool.max_images:
        needed = pool.image_busy + math.ceil(pool.image_queued / capacity)
        yield f"{name} (boxes of images)", needed, pool.max_image_boxes
        # An image keeps its place from others, however few boxes it has.
        yield f"{name} (images)", pool.images + pool.refused_images, pool.max_images


def _scaler(roster: Roster) -> ActorHandle[FleetScaler] | None:
    try:
        return ray.get_actor(NAME, namespace=roster.fleet)
    except ValueError:
        return None


async def _call(handle: ActorHandle[Any], method: str, **arguments: object) -> Any:  # noqa: ANN401
    """Return the answer of an actor's method, or None when it does not answer now."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await getattr(handle, method).remote(**arguments)
    except (TimeoutError, ray.exceptions.RayError):
        return None


async def _call_each(
    handles: Mapping[str, ActorHandle[Any]], names: Collection[str], method: str, **arguments: object
) -> None:
    """Call a method of several actors at once, whether or not they answer now."""
    await asyncio.gather(*(_call(handles[name], method, **arguments) for name in names))
