"""Release an instance from the console: a page that asks, and the form that it sends.

Only keys that may write see either. A page of another site cannot send the form: its request would lack the
cookie, and is rejected by its ``Origin`` or ``Sec-Fetch-Site``, also where there are no keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from sandbox_contract.episodes import ReleaseInstanceRequest, ReleaseInstanceResult
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.auth import check_rights
from sandbox_service.gateway.inspection import LIVE_STATES, exchange_of, instance_status

from .access import CONSOLE, check_same_site
from .answers import as_page, named_instance, page

if TYPE_CHECKING:
    from sandbox_contract.inspection import InstanceStatus
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.exchange import HttpExchange


_PATH = f"{CONSOLE}/episodes/{{instance_id}}/release"
_ASKED, _RELEASED, _ENDED, _UNKNOWN = "asked", "released", "ended", "unknown"
"""Outcomes that the page shows."""


class ConsoleRelease:
    """Handlers of the page and its form."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def build_router(self) -> APIRouter:
        """Return the routes, which are not part of the documented API."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route(_PATH, self.confirm_release, methods=["GET"], response_model=None)
        router.add_api_route(_PATH, self.release_instance, methods=["POST"], response_model=None)
        return router

    @as_page
    async def confirm_release(self, request: Request) -> Response:
        """Ask whether the instance is to be released. Refuses read-only keys, which cannot answer."""
        exchange, name = exchange_of(request), named_instance(request)
        check_rights(exchange, changes=True)
        try:
            status = await instance_status(self._dispatcher, exchange, name)
        except ServiceError as error:
            return _unless_unknown(exchange, name, error)
        live = status.state in LIVE_STATES
        return _page(exchange, name, _ASKED if live else _ENDED, status)

    @as_page
    async def release_instance(self, request: Request) -> Response:
        """Release the instance, and say whether this ended it."""
        exchange, name = exchange_of(request), named_instance(request)
        check_same_site(exchange)
        exchange.instance_id = name
        try:
            reply = await self._dispatcher.dispatch(exchange, ReleaseInstanceRequest(instance_id=name))
        except ServiceError as error:
            return _unless_unknown(exchange, name, error)
        result = ReleaseInstanceResult.model_validate_json(reply.body)
        return _page(exchange, name, _RELEASED if result.released else _ENDED)


def _unless_unknown(exchange: HttpExchange, name: str, error: ServiceError) -> Response:
    """Return the page of an unknown instance; raise every other error."""
    if error.code is not ErrorCode.UNKNOWN_INSTANCE:
        raise error
    exchange.error = error.code
    return _page(exchange, name, _UNKNOWN, code=404)


def _page(
    exchange: HttpExchange, name: str, outcome: str, status: InstanceStatus | None = None, code: int = 200
) -> Response:
    context = {"instance_id": name, "outcome": outcome, "status": status}
    return page(exchange, "release.html", context, section="Overview", status=code)
