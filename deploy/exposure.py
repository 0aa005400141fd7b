"""Check who can reach a service, on the address on which Ray Serve listens, before it starts.

Serve has one HTTP front for all applications of a cluster, and its address is set by whatever started it
first: by ``http_options`` under ``serve deploy``, by an earlier service on a cluster that is joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.gateway.auth import ExposureError, check_exposure, is_loopback

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig


def check_reach(config: ServiceConfig) -> None:
    """Refuse to serve other machines without API keys, or from process sandboxes. Raises ExposureError."""
    check_exposure(config.server)
    host = config.server.host
    if config.sandbox.kind == "process" and not is_loopback(host):
        raise ExposureError(
            f"process sandboxes are no security boundary, and {host} can be reached from other machines: "
            "listen on 127.0.0.1, or use sandbox.kind=docker"
        )


def listening_with_serve(config: ServiceConfig, *, exactly: bool = False) -> ServiceConfig:
    """Return the configuration with the address of the Serve that runs, checked.

    Raises ExposureError, also when the configuration names another address, or, with ``exactly``, has one
    by default.
    """
    # Serve reads its environment when it is imported, so not before the cluster has been set up.
    from ray.serve.context import _get_global_client

    client = _get_global_client()
    assert client is not None, "Serve runs before its applications are built"
    options = client.http_config
    return listening_on(config, options.host or "0.0.0.0", options.port, exactly=exactly)


def listening_on(config: ServiceConfig, host: str, port: int, *, exactly: bool = False) -> ServiceConfig:
    """Return the configuration with this address, checked as ``listening_with_serve`` does.

    Raises ExposureError.
    """
    where = {"host": host, "port": port}
    for name in where if exactly else config.server.model_fields_set & where.keys():
        if getattr(config.server, name) != where[name]:
            raise ExposureError(
                f"server.{name} is {getattr(config.server, name)!r}, but Ray Serve listens on {host}:{port}, "
                f"which http_options.{name} or an earlier start of Serve on this cluster has set: "
                "make them the same"
            )
    served = config.model_copy(update={"server": config.server.model_copy(update=where)})
    check_reach(served)
    return served
