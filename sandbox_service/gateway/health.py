"""Routes for those who run the service: is it alive, is it ready, what do its metrics say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .documents import problem_responses
from .inspection import exchange_of, fleet_stats
from .metrics import METRICS_MEDIA_TYPE
from .reference_page import OPEN_PAGES

if TYPE_CHECKING:
    from sandbox_contract.inspection import SupervisorStats

    from .exchange import Exchange
    from .metrics import Metrics
    from .verbs import Verbs


OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", *OPEN_PAGES})
"""Paths that need no API key: they tell nothing about tenants or the fleet."""

_PATIENCE_S = 2.0
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


class HealthRoutes:
    """Handlers of ``/healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(self, verbs: Verbs, metrics: Metrics) -> None:
        self._verbs = verbs
        self._metrics = metrics

    def router(self) -> APIRouter:
        """The routes."""
        router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)
        alive: dict[int | str, dict[str, Any]] = {200: {"description": "The body is `OK`."}}
        router.add_api_route("/healthz", self.healthz, response_class=Response, responses=alive)
        unready = problem_responses(
            (ErrorCode.SUPERVISOR_UNAVAILABLE, ErrorCode.DRAINING, ErrorCode.STORAGE_FULL), keyed=False
        )
        router.add_api_route("/readyz", self.readyz, responses={**_TEXT, **unready})
        router.add_api_route("/metrics", self.metrics, responses={**_TEXT, **problem_responses(())})
        return router

    async def healthz(self) -> Response:
        """Tell that the process answers."""
        return Response(b"OK")

    async def readyz(self, request: Request) -> Response:
        """Tell whether new instances are taken somewhere."""
        fleet = await self._fleet(exchange_of(request))
        if not fleet:
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "no supervisor answers", retry_after_s=1.0)
        if all(supervisor.draining for supervisor in fleet):
            raise ServiceError(ErrorCode.DRAINING, "every supervisor is draining", retry_after_s=5.0)
        if not any(supervisor.storing and not supervisor.draining for supervisor in fleet):
            detail = "no supervisor that takes instances can write to its trajectory store"
            raise ServiceError(ErrorCode.STORAGE_FULL, detail, retry_after_s=5.0)
        return PlainTextResponse("OK")

    async def metrics(self, request: Request) -> Response:
        """Give the metrics of this replica and of the fleet, in Prometheus's text format."""
        fleet = await self._fleet(exchange_of(request))
        return Response(self._metrics.exposition(fleet), media_type=METRICS_MEDIA_TYPE)

    async def _fleet(self, exchange: Exchange) -> list[SupervisorStats]:
        """The fleet's statistics; a fleet that cannot be asked is an empty one."""
        try:
            return await fleet_stats(self._verbs, exchange, _PATIENCE_S)
        except ServiceError:
            return []
