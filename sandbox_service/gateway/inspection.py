"""Routes that tell about the service: environments, instances, trajectories, statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import TypeAdapter

from sandbox_service.contract.base import InstanceId
from sandbox_service.contract.inspection import (
    Environments,
    Instances,
    InstanceStatus,
    Stats,
    SupervisorStats,
    Trajectory,
)
from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.runner.frames import Op

from .documents import problem_responses
from .exchange import EXCHANGE, Exchange
from .operations import THROUGH_FLEET

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sandbox_service.environments.registry import Registry

    from .verbs import Verbs

__all__ = [
    "GONE",
    "LIVE",
    "InspectionRoutes",
    "InstancePath",
    "exchange_of",
    "fleet_stats",
    "instance_status",
    "known_instances",
]

InstancePath = Annotated[InstanceId, Path(description="The instance.")]

LIVE = frozenset({"creating", "active", "finished"})
"""States of instances that have not ended."""
GONE = frozenset(
    {
        ErrorCode.UNKNOWN_INSTANCE,
        ErrorCode.INSTANCE_RELEASED,
        ErrorCode.INSTANCE_EXPIRED,
        ErrorCode.INSTANCE_LOST,
    }
)
"""What a call is answered when its instance has ended, or never was."""

_SUPERVISORS: TypeAdapter[SupervisorStats] = TypeAdapter(SupervisorStats)
_LISTS: TypeAdapter[Instances] = TypeAdapter(Instances)


def exchange_of(request: Request) -> Exchange:
    """The exchange that the gateway put into the request's scope."""
    exchange: Exchange = request.scope[EXCHANGE]
    return exchange


async def fleet_stats(
    verbs: Verbs, exchange: Exchange, timeout_s: float | None = None
) -> list[SupervisorStats]:
    """Statistics of every supervisor that answers."""
    frames = await verbs.ask_everyone(exchange, Op.STATS, timeout_s)
    return sorted((_SUPERVISORS.validate_json(frame.body) for frame in frames), key=lambda each: each.name)


async def known_instances(verbs: Verbs, exchange: Exchange) -> list[InstanceStatus]:
    """Every instance of the calling tenant that some supervisor knows, the recently ended ones included."""
    frames = await verbs.ask_everyone(exchange, Op.INSTANCES)
    return [status for frame in frames for status in _LISTS.validate_json(frame.body).instances]


async def instance_status(verbs: Verbs, exchange: Exchange, instance_id: str) -> InstanceStatus:
    """The state of one instance. Raises ServiceError(UNKNOWN_INSTANCE)."""
    reply = await verbs.ask(exchange, Op.INSTANCES, instance_id)
    for status in _LISTS.validate_json(reply.body).instances:
        if status.instance_id == instance_id:
            return status
    raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, f"there is no instance {instance_id!r}")


class InspectionRoutes:
    """Handlers of the routes that only look."""

    def __init__(self, verbs: Verbs, registry: Registry) -> None:
        self._verbs = verbs
        self._registry = registry

    def router(self) -> APIRouter:
        """The routes, with the errors that each may answer."""
        router = APIRouter(tags=["inspection"])
        fleet = THROUGH_FLEET
        one = (*THROUGH_FLEET, ErrorCode.UNKNOWN_INSTANCE)
        for path, endpoint, model, errors in (
            ("/v1/environments", self.environments, Environments, ()),
            ("/v1/instances", self.instances, Instances, fleet),
            ("/v1/instances/{instance_id}", self.instance, InstanceStatus, one),
            ("/v1/instances/{instance_id}/trajectory", self.trajectory, Trajectory, one),
            ("/v1/stats", self.stats, Stats, fleet),
        ):
            router.add_api_route(
                path,
                endpoint,
                response_model=model,
                responses=problem_responses(errors),
                operation_id=endpoint.__name__,
            )
        return router

    async def environments(self) -> Response:
        """Describe all environments that are served."""
        catalogs = self._registry.catalogs
        return _json(Environments(environments=tuple(catalogs[name].describe() for name in sorted(catalogs))))

    async def instances(self, request: Request) -> Response:
        """List the calling tenant's live and recently ended instances."""
        return _json(Instances(instances=tuple(await known_instances(self._verbs, exchange_of(request)))))

    async def instance(self, request: Request, instance_id: InstancePath) -> Response:
        """Tell the state of an instance; looking does not renew its lease."""
        return _json(await instance_status(self._verbs, exchange_of(request), instance_id))

    async def trajectory(self, request: Request, instance_id: InstancePath) -> Response:
        """Give the recorded history of an instance, also after its end."""
        reply = await self._verbs.ask(exchange_of(request), Op.TRAJECTORY, instance_id)
        return Response(reply.body, media_type="application/json")

    async def stats(self, request: Request) -> Response:
        """Tell the state of the fleet's pools."""
        fleet = await fleet_stats(self._verbs, exchange_of(request))
        pools = [pool for supervisor in fleet for pool in supervisor.pools]
        return _json(
            Stats(
                supervisors=tuple(fleet),
                instances=sum(pool.instances for pool in pools),
                queued=sum(pool.queued for pool in pools),
            )
        )


def _json(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")
