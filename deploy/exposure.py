"""Check before the start from where a service is reachable, at the address on which Ray Serve listens.

Serve has one HTTP front for all applications of a cluster, and its first start sets the address:
``http_options`` under ``serve deploy``, or an earlier service on a cluster that is joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.gateway.auth import ExposureError, check_exposure, is_loopback

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig


def check_reach(config: ServiceConfig) -> None:
    """Raise ExposureError if other machines are served without API keys, or from process sandboxes."""
    check_exposure(config.server)
    host = config.server.host
    if config.sandbox.kind == "process" and not is_loopback(host):
        raise ExposureError(
            f"process sandboxes are not a security boundary, and {host} can be reached from other machines: "
            "listen on 127.0.0.1, or use sandbox.kind=docker or gvisor"
        )


def listening_with_serve(config: ServiceConfig, *, exactly: bool = False) -> ServiceConfig:
    """Return the configuration with the address of the running Serve, and check its reach.

    Raises ExposureError, also when the configuration names another address, or, with ``exactly``, has one
    by default.
    """
    # Serve reads its environment when it is imported, so the import must follow the start of the cluster.
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
                "set both to the same value"
            )
    served = config.model_copy(update={"server": config.server.model_copy(update=where)})
    check_reach(served)
    return served
