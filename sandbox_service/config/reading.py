"""Read the service's configuration from a TOML file and ``key=value`` overrides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sandbox_settings import read_settings

from .service import ServiceConfig


def read_config(path: Path | None = None, overrides: Iterable[str] = ()) -> ServiceConfig:
    """Return the configuration of a service; overrides win over the file. Raises SettingsError."""
    return read_settings(ServiceConfig, path, overrides, example="server.port=9000")
