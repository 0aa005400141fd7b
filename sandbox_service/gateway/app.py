"""The gateway's ASGI application: one door for every request, whoever serves it behind.

The hot routes are called with body bytes and give bytes; the rest is FastAPI's. The door makes the request
id, knows the tenant, turns whatever fails into an answer, and counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig, QuotaConfig
from sandbox_service.errors import ServiceError

from .answers import problem_answer, send_answer
from .auth import KeyRing
from .bodies import BodyParser
from .compat.agentgym.documents import agentgym_documentation
from .compat.agentgym.routes import AgentGymRoutes
from .compat.agentscope.documents import compat_documentation
from .compat.agentscope.manager_routes import ManagerRoutes
from .compat.agentscope.routes import CompatRoutes
from .deadlines import Deadlines
from .documents import build_document
from .exchange import EXCHANGE, Exchange, begin
from .failures import install_handlers
from .files import FileRoutes
from .health import OPEN_PATHS, HealthRoutes
from .inspection import InspectionRoutes
from .methods import allow_header, with_head
from .metrics import Metrics
from .native import HotRoute, NativeRoutes
from .receipt import BodyReceipt, ClientGone
from .reference_page import ReferencePages
from .refusals import SchemaError
from .request_log import RequestLog
from .turns import Turns
from .verbs import Verbs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sandbox_service.config import ServerConfig
    from sandbox_service.environments.registry import Registry

    from .answers import Answer
    from .backend import Backend


_MIB = 1024 * 1024


class Gateway:
    """An ASGI application in front of the hot routes and of FastAPI."""

    def __init__(
        self,
        hot: Iterable[HotRoute],
        rest: ASGIApp,
        *,
        keys: KeyRing,
        metrics: Metrics,
        log: RequestLog,
        bodies: BodyReceipt,
        turns: Turns | None = None,
    ) -> None:
        self._hot = {route.path: route for route in hot}
        self._rest = rest
        self._keys = keys
        self._metrics = metrics
        self._log = log
        self._bodies = bodies
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._rest(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        exchange = begin(scope)
        self._metrics.begin()
        try:
            await self._serve(exchange, scope, receive, send)
        except ClientGone:
            pass
        finally:
            self._bodies.forget(exchange)
            if self._turns is not None and exchange.turn is not None:
                self._turns.end(exchange.turn)
            self._metrics.finish(exchange)
            self._log.finish(exchange)

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._hot.get(exchange.path)
        if route is None:
            await self._serve_rest(exchange, scope, receive, send)
            return
        exchange.route = route.path
        if exchange.method != route.method and exchange.method not in with_head((route.method,)):
            refused = route.refuse(exchange, ServiceError(ErrorCode.METHOD_NOT_ALLOWED))
            allow = (b"allow", allow_header((route.method,)).encode())
            await send_answer(send, exchange, replace(refused, headers=(*refused.headers, allow)))
            return
        try:
            answer = await self._answer(route, exchange, receive)
        except ServiceError as error:
            answer = route.refuse(exchange, error)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - capture point: no traceback leaves the service
            self._log.defect(exchange, error)
            answer = route.refuse(exchange, ServiceError(ErrorCode.INTERNAL))
        await send_answer(send, exchange, answer)

    async def _answer(self, route: HotRoute, exchange: Exchange, receive: Receive) -> Answer:
        self._admit(exchange)
        if self._turns is not None:
            exchange.turn = await self._turns.take(exchange.tenant)
        return await route.handle(exchange, await self._bodies.read(exchange, receive))

    def _admit(self, exchange: Exchange) -> None:
        """Know the tenant. Raises ServiceError for a caller or a request id that is not taken."""
        if exchange.id_is_malformed:
            raise SchemaError.at("X-Request-Id", "must be 1 to 128 visible ASCII characters")
        if exchange.path not in OPEN_PATHS:
            exchange.tenant = self._keys.tenant_of(exchange.headers)

    async def _serve_rest(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        inner = {**scope, "path": exchange.path, EXCHANGE: exchange}
        head = exchange.method == "HEAD"
        if head:
            # The framework's routes know GET; the answer to HEAD is that of GET without its body.
            inner["method"] = "GET"
        started = False

        async def send_on(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                exchange.status = message["status"]
                own = ((b"x-request-id", exchange.request_id.encode()), *exchange.last_headers)
                message["headers"] = [*message["headers"], *own]
            elif head:
                message = {**message, "body": b""}
            await send(message)

        try:
            self._admit(exchange)
            if self._turns is not None and exchange.tenant:
                exchange.turn = await self._turns.take(exchange.tenant)
            await self._rest(inner, receive, send_on)
        except ServiceError as error:
            await send_answer(send, exchange, problem_answer(exchange, error))
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - capture point: no traceback leaves the service
            self._log.defect(exchange, error)
            if not started:
                await send_answer(send, exchange, problem_answer(exchange, ServiceError(ErrorCode.INTERNAL)))
        finally:
            template = getattr(inner.get("route"), "path", None)
            exchange.route = template or exchange.route


def build_app(
    config: ServerConfig,
    registry: Registry,
    backend: Backend,
    *,
    deadline: DeadlineConfig | None = None,
    queue_timeout_s: float = 60.0,
    log_every: int = 0,
    quota: QuotaConfig | None = None,
) -> ASGIApp:
    """The gateway's application. ``log_every`` n logs one of n successful requests, 0 none of them.

    Where there are several tenants, they take turns by ``quota``.
    """
    verbs = Verbs(backend, Deadlines(deadline or DeadlineConfig(), queue_timeout_s))
    metrics = Metrics()
    log = RequestLog(log_every)
    turns, bodies = _bounds(config, quota or QuotaConfig(), metrics)
    parser = BodyParser(config.max_json_depth, config.max_json_values)
    native = NativeRoutes(verbs, registry, metrics, log, parser, turns)
    compat = CompatRoutes(verbs, registry, parser)
    manager = ManagerRoutes(compat, verbs, registry, parser)
    agentgym = AgentGymRoutes(verbs, registry, parser)
    return Gateway(
        [*native.routes(), *compat.routes(), *manager.routes(), *agentgym.routes()],
        _rest(verbs, registry, metrics, bodies, config.max_body_bytes),
        keys=KeyRing(config.api_keys, insecure=config.insecure, host_names=config.host_names),
        metrics=metrics,
        log=log,
        bodies=bodies,
        turns=turns,
    )


def _bounds(config: ServerConfig, quota: QuotaConfig, metrics: Metrics) -> tuple[Turns | None, BodyReceipt]:
    """What keeps tenants from each other's way; a single one is bounded by what all may have."""
    several = len(set(config.api_keys.values())) > 1
    most = config.bodies_mib * _MIB
    of_one = min(most, quota.bodies_mib * _MIB) if several else most
    # A body that is allowed at all must fit.
    least = config.max_body_bytes
    bodies = BodyReceipt(
        least, config.body_timeout_s, max(least, most), max(least, of_one), fronted=config.haproxy
    )
    turns = Turns(quota, metrics.waited) if several else None
    metrics.watch(lambda: turns.waiting if turns else 0, lambda: bodies.held_bytes)
    return turns, bodies


def _rest(verbs: Verbs, registry: Registry, metrics: Metrics, bodies: BodyReceipt, max_bytes: int) -> FastAPI:
    """FastAPI's part: what is not hot, and the document of everything."""
    app = FastAPI(redirect_slashes=False, redoc_url=None, docs_url=None)
    install_handlers(app)
    app.include_router(InspectionRoutes(verbs, registry).router())
    app.include_router(FileRoutes(verbs, bodies, max_bytes).router())
    app.include_router(HealthRoutes(verbs, metrics).router())
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not document:
            hot = [*compat_documentation(), *agentgym_documentation()]
            document.update(build_document(app.routes, hot, OPEN_PATHS))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    app.include_router(ReferencePages(openapi).router())
    return app
