"""Check a running Ray cluster before a service is added to it: another one may serve there already."""

from __future__ import annotations

from collections.abc import Mapping

from local_processes.readiness import NotReadyError

ROUTE = "/"
"""The route of a service, on the one HTTP front of its cluster."""


def serve_applications() -> Mapping[str, str | None] | None:
    """Return the route of each application of the cluster that is joined, by name; None without Ray Serve.

    An application that is being deployed may have no route yet.
    """
    # Serve reads its environment when it is imported, so the import must follow the start of the cluster.
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:
        return None
    return {name: one.get("route_prefix") for name, one in client.get_serve_details()["applications"].items()}


def check_vacancy(applications: Mapping[str, str | None], name: str) -> None:
    """Raise NotReadyError if an application has the name or the route of the service that is to start.

    The start would replace it, and the end of the service, also of one that does not start, would remove it.
    """
    for found, route in applications.items():
        if found == name or route == ROUTE:
            raise NotReadyError(
                f"the Ray cluster at fleet.address already runs the application {found!r} at "
                f"{route or ROUTE}; nothing was changed. Stop that service first. If it was killed, remove "
                "what it left with `serve shutdown`, which ends all Serve applications of the cluster"
            )
