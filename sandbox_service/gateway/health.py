"""Routes for operators: liveness, readiness and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .inspection import exchange_of, fleet_stats
from .metrics import METRICS_MEDIA_TYPE
from .openapi import Responses, documented_problems
from .reference_page import OPEN_PAGES

if TYPE_CHECKING:
    from sandbox_contract.inspection import SupervisorStats

    from .dispatch import Dispatcher
    from .exchange import HttpExchange
    from .metrics import Metrics


OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", *OPEN_PAGES})
"""Paths that need no API key, since they reveal nothing about tenants or the fleet."""

_FLEET_TIMEOUT_S = 2.0
_TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


class HealthRoutes:
    """Handlers of ``/healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(self, dispatcher: Dispatcher, metrics: Metrics) -> None:
        self._dispatcher = dispatcher
        self._metrics = metrics

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)
        alive: Responses = {200: {"description": "The body is `OK`."}}
        router.add_api_route("/healthz", self.healthz, response_class=Response, responses=alive)
        unready = documented_problems(
            (ErrorCode.SUPERVISOR_UNAVAILABLE, ErrorCode.DRAINING, ErrorCode.STORAGE_FULL), keyed=False
        )
        router.add_api_route("/readyz", self.readyz, responses={**_TEXT, **unready})
        router.add_api_route("/metrics", self.metrics, responses={**_TEXT, **documented_problems(())})
        return router

    async def healthz(self) -> Response:
        """Answer `OK` while the process serves requests."""
        return Response(b"OK")

    async def readyz(self, request: Request) -> Response:
        """Answer `OK` if a supervisor accepts new instances."""
        fleet = await self._fleet(exchange_of(request))
        if not fleet and self._dispatcher.excluded_supervisors():
            # Without names and versions, which need a key.
            detail = "no supervisor gets requests; GET /v1/stats says why"
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=5.0)
        if not fleet:
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "no supervisor answers", retry_after_s=1.0)
        if all(supervisor.draining for supervisor in fleet):
            raise ServiceError(ErrorCode.DRAINING, "every supervisor is draining", retry_after_s=5.0)
        if not any(supervisor.storing and not supervisor.draining for supervisor in fleet):
            detail = "no supervisor that accepts instances can write to its trajectory store"
            raise ServiceError(ErrorCode.STORAGE_FULL, detail, retry_after_s=5.0)
        return PlainTextResponse("OK")

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of this replica and of the fleet in Prometheus's text format."""
        fleet = await self._fleet(exchange_of(request))
        return Response(self._metrics.exposition(fleet), media_type=METRICS_MEDIA_TYPE)

    async def _fleet(self, exchange: HttpExchange) -> list[SupervisorStats]:
        """Return the statistics of the supervisors that answer, none if the fleet is unreachable."""
        try:
            return await fleet_stats(self._dispatcher, exchange, _FLEET_TIMEOUT_S)
        except ServiceError:
            return []
