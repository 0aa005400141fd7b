"""Catalogs over the echo world: one of pure data, and one that claims to run agent code.

``diary`` has everything that ``echo`` has not: files, agent code, one instance a box, no determinism.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_service.environments.base import Catalog, EnvironmentSpec

__all__ = ["FakeCatalog", "FakeRegistry", "fake_registry"]


class FakeCatalog(EchoCatalog):
    """The tasks of echo under another specification."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec  # type: ignore[misc]


class FakeRegistry:
    """Keeps ``Registry``, and lets tests choose the catalogs."""

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self.catalogs = MappingProxyType(dict(catalogs))

    def catalog(self, name: str) -> Catalog:
        try:
            return self.catalogs[name]
        except KeyError:
            raise ServiceError(ErrorCode.UNKNOWN_ENVIRONMENT, f"no environment {name!r}") from None


def fake_registry() -> FakeRegistry:
    """``echo`` as it is; ``diary`` with agent code; ``sheet``, deterministic, one instance a box, no fork."""
    echo = EchoCatalog()
    diary = replace(
        echo.spec,
        name="diary",
        agent_code=True,
        many_per_worker=False,
        deterministic=False,
        instances_per_box=1,
        runs_agents=True,
    )
    sheet = replace(
        echo.spec, name="sheet", many_per_worker=False, fork=False, deterministic=True, instances_per_box=1
    )
    return FakeRegistry({"echo": echo, "diary": FakeCatalog(diary), "sheet": FakeCatalog(sheet)})
