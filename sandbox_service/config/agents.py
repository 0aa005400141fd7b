"""Settings of agents that run in instances."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from sandbox_settings import Branch

_RULE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?:(\*)|([0-9]{1,5})(?:-([0-9]{1,5}))?)")
_LAST_PORT = 65_535


def _checked(rule: str) -> str:
    _parse(rule)
    return rule


def _parse(rule: str) -> tuple[str, range]:
    """Return the host and the ports of a rule. Raises ValueError."""
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError("expected host:port, host:first-last or host:*")
    host, every, first, last = found.groups()
    ports = range(1, _LAST_PORT + 1) if every else range(int(first), int(last or first) + 1)
    if not ports or ports[0] < 1 or ports[-1] > _LAST_PORT:
        raise ValueError(f"ports are between 1 and {_LAST_PORT}, the first before the last")
    return host.lower(), ports


EndpointRule = Annotated[str, AfterValidator(_checked)]
PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


class AgentsConfig(Branch):
    """Agents that run in instances (``run_agent``)."""

    model_endpoints: tuple[EndpointRule, ...] = ()
    """Endpoints that requests may name: ``host:port``, ``host:first-last`` or ``host:*``; by default none."""

    packages: dict[PackageName, Path] = {}
    """Folders by the names under which requests use them, read-only in boxes that run agents."""

    def allows(self, endpoint: str) -> bool:
        """Return whether requests may name the endpoint ``host:port``. Hosts are compared as texts."""
        host, _, port = endpoint.rpartition(":")
        rules = (_parse(rule) for rule in self.model_endpoints)
        return any(host.lower() == allowed and int(port) in ports for allowed, ports in rules)
