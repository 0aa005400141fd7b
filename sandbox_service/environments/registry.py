"""The table of environments: a name, and the catalog that serves it.

An environment that needs packages is served where it was set up; the others always are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .alfworld.service.catalog import AlfworldCatalog
from .appworld.service.catalog import AppworldCatalog
from .babyai.service.catalog import BabyaiCatalog
from .bfcl.service.catalog import BfclCatalog
from .bike_rental.service.catalog import BikeRentalCatalog
from .code.service.catalog import CodeCatalog
from .echo.service.catalog import EchoCatalog
from .harbor.service.catalog import HarborCatalog, bundled_tasks, named
from .provisions import find
from .scienceworld.service.catalog import ScienceworldCatalog
from .search_qa.service.catalog import SearchQaCatalog
from .text_to_sql.service.catalog import TextToSqlCatalog
from .textcraft.service.catalog import TextcraftCatalog
from .textworld.service.catalog import TextworldCatalog
from .webshop.service.catalog import WebshopCatalog

if TYPE_CHECKING:
    from sandbox_service.config import EnvironmentsConfig

    from .base import Catalog, Provisions


SETUP_COMMAND = "sandbox-service envs setup"

_PLAIN: Mapping[str, Callable[[EnvironmentsConfig], Catalog]] = MappingProxyType(
    {
        "bike_rental": lambda config: BikeRentalCatalog(config.bike_rental),
        "code": lambda config: CodeCatalog(config.code),
        "echo": lambda _: EchoCatalog(),
        "harbor": lambda config: HarborCatalog(
            "harbor", config.harbor, {**bundled_tasks(), **named(config.harbor.tasks)}
        ),
        "search_qa": lambda config: SearchQaCatalog(config.search_qa),
        "text_to_sql": lambda config: TextToSqlCatalog(config.text_to_sql),
    }
)
"""Environments of our code alone."""

_PROVIDED: Mapping[str, Callable[[EnvironmentsConfig, Provisions], Catalog]] = MappingProxyType(
    {
        "alfworld": lambda config, found: AlfworldCatalog(config.alfworld, found),
        "appworld": lambda config, found: AppworldCatalog(config.appworld, found),
        "babyai": lambda config, found: BabyaiCatalog(config.babyai, found),
        "bfcl": lambda config, found: BfclCatalog(config.bfcl, found),
        "scienceworld": lambda config, found: ScienceworldCatalog(config.scienceworld, found),
        "textcraft": lambda config, found: TextcraftCatalog(config.textcraft, found),
        "textworld": lambda config, found: TextworldCatalog(config.textworld, found),
        "webshop": lambda config, found: WebshopCatalog(config.webshop, found),
    }
)
"""Environments with packages of their own."""


class Registry:
    """The catalogs that this service has, by the names of their environments."""

    def __init__(self, catalogs: Mapping[str, Catalog], absent: Iterable[str] = ()) -> None:
        """``absent`` are environments that could be served and are not set up."""
        self.catalogs = MappingProxyType(dict(catalogs))
        self.absent = frozenset(absent)

    def catalog(self, name: str) -> Catalog:
        """Return the catalog of an environment. Raises ServiceError(UNKNOWN_ENVIRONMENT)."""
        try:
            return self.catalogs[name]
        except KeyError:
            known = ", ".join(sorted(self.catalogs))
            remedy = (
                f"it is not set up: {SETUP_COMMAND} {name}" if name in self.absent else f"there are: {known}"
            )
            detail = f"no environment {name!r}; {remedy}"
            raise ServiceError(ErrorCode.UNKNOWN_ENVIRONMENT, detail) from None


def build_registry(config: EnvironmentsConfig) -> Registry:
    """Return the catalogs of all environments that the configuration enables and this machine has.

    Raises ServiceError(UNKNOWN_ENVIRONMENT) when one is enabled by name and cannot be served.
    """
    catalogs = {name: make(config) for name, make in _PLAIN.items()}
    for name, make in _PROVIDED.items():
        found = find(name, config.packages_dir, _operator_data(config, name))
        if found is not None:
            catalogs[name] = make(config, found)
    registry = Registry(catalogs, _PROVIDED.keys() - catalogs.keys())
    if config.enabled is None:
        return registry
    return Registry({name: registry.catalog(name) for name in config.enabled}, registry.absent)


def _operator_data(config: EnvironmentsConfig, name: str) -> Path | None:
    """Return the operator's data of an environment, as the configuration has it."""
    path: Path | None = getattr(getattr(config, name), "data", None)
    return path
