"""The service's configuration from a TOML file and ``key=value`` words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.config import ServiceConfig
from trainer.config.reading import read_settings
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["ConfigError", "read_config"]


def read_config(path: Path | None = None, words: Iterable[str] = ()) -> ServiceConfig:
    """The configuration of a service. Words win over the file. Raises ConfigError."""
    return read_settings(ServiceConfig, path, words, example="server.port=9000")
