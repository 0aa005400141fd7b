"""The table of environments: a name, and the catalog that serves it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .code.catalog import CodeCatalog
from .echo.catalog import EchoCatalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_service.config import EnvironmentsConfig

    from .base import Catalog

__all__ = ["Registry", "build_registry"]


class Registry:
    """The catalogs by name."""

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self.catalogs = MappingProxyType(dict(catalogs))

    def catalog(self, name: str) -> Catalog:
        """The catalog of an environment. Raises ServiceError(UNKNOWN_ENVIRONMENT), naming those there are."""
        try:
            return self.catalogs[name]
        except KeyError:
            known = ", ".join(sorted(self.catalogs))
            detail = f"no environment {name!r}; there are: {known}"
            raise ServiceError(ErrorCode.UNKNOWN_ENVIRONMENT, detail) from None


def build_registry(config: EnvironmentsConfig) -> Registry:
    """The catalogs of all environments that the configuration enables."""
    return Registry({"code": CodeCatalog(config.code), "echo": EchoCatalog()})
