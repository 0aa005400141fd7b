"""Let agents reach the gateway of their own machine where an HTTP proxy is set.

SDKs send all requests to the proxy of ``HTTP_PROXY`` but those to the hosts in ``NO_PROXY``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXCEPTED = ("NO_PROXY", "no_proxy")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def excepted_from_proxies(environment: Mapping[str, str], host: str) -> dict[str, str]:
    """Return the variables that except a host from an environment's proxies; none where no proxy is set."""
    if not any(value and name.lower() in _PROXIES for name, value in environment.items()):
        return {}
    excepted = {}
    for name, other in zip(_EXCEPTED, reversed(_EXCEPTED), strict=True):
        # Programs read one of the two, most of them the one in lower case where both are set.
        given = environment.get(name) or environment.get(other) or ""
        hosts = [each.strip() for each in given.split(",") if each.strip()]
        if "*" not in hosts and host not in hosts:
            hosts.append(host)
        excepted[name] = ",".join(hosts)
    return excepted
