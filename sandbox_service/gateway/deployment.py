"""The gateway on Ray Serve: each replica is one ASGI application.

Serve starts and monitors the replicas; HAProxy sends requests directly to their ports. A replica finds the
supervisors by name and calls them over its own streams, so no request passes through Serve's handles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray import serve
from ray.serve.schema import LoggingConfig

from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.router import Router
from sandbox_service.stream.garbage import collect_rarely
from sandbox_service.stream.memory import keep_freed_memory
from sandbox_service.telemetry import configure_logging
from sandbox_service.tracing import open_tracing

from .app import build_configured_app
from .http_protocol import limit_stalls

if TYPE_CHECKING:
    from ray.serve import Application
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sandbox_service.config import ServiceConfig
    from sandbox_service.fleet.roster import Roster


MAX_ONGOING_REQUESTS = 16_384
"""High enough never to apply: FairQueue and the supervisors bound the requests."""


class GatewayReplica:
    """One replica: the application and its router to the fleet."""

    def __init__(self, config: ServiceConfig, roster: Roster) -> None:
        configure_logging("info", json=True)
        self._config = config
        self._discovery = RayDiscovery(roster)
        self._router = Router(self._discovery)
        self._tracing = open_tracing(config.telemetry, "sandbox-gateway")

    def __serve_build_asgi_app__(self) -> ASGIApp:
        app = build_configured_app(self._config, self._router, self._tracing)
        app.show_fleet(self._discovery.view)
        app.name_replica(serve.get_replica_context().replica_id.unique_id)
        limit_stalls(self._config.server.body_timeout_s)
        collect_rarely()
        keep_freed_memory()
        return _without_request_id(app)

    async def check_health(self) -> None:
        """Succeed while the event loop runs; missing supervisors do not make a replica unhealthy.

        Serve's first check begins the search for supervisors, so that they start, and start again, also when
        there are no requests.
        """
        self._discovery.start()

    async def __del__(self) -> None:
        await self._router.close()
        if self._tracing is not None:
            await self._tracing.close()


def _without_request_id(app: ASGIApp) -> ASGIApp:
    """Remove the application's x-request-id header, since Serve adds the same one to every response."""

    async def serve_request(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [pair for pair in message["headers"] if pair[0] != b"x-request-id"]
            await send(message)

        await app(scope, receive, send_on)

    return serve_request


def _on_sandbox_nodes(resource: str | None) -> dict[str, float]:
    """Return what a replica reserves of the nodes' resource: next to nothing, so that all fit beside it."""
    return {} if resource is None else {resource: 0.001}


def bind_gateway(config: ServiceConfig, roster: Roster) -> Application:
    """Return the Serve application of the gateway."""
    ingress: Any = serve.ingress()(GatewayReplica)
    options: Any = serve.deployment(
        name="gateway",
        num_replicas=config.server.replicas,
        max_ongoing_requests=MAX_ONGOING_REQUESTS,
        ray_actor_options={"num_cpus": 0, "resources": _on_sandbox_nodes(config.fleet.node_resource)},
        health_check_period_s=5,
        # Three failures in a row end the replica, and cut off what it serves. A process that has ended is
        # found without these checks; one that a busy machine keeps waiting does not hang.
        health_check_timeout_s=60,
        graceful_shutdown_timeout_s=config.deadline.drain_s,
        graceful_shutdown_wait_loop_s=0.2,
        logging_config=LoggingConfig(enable_access_log=False, log_level="WARNING"),
    )
    application: Application = options(ingress).bind(config, roster)
    return application
