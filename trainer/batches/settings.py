"""Settings that the driver passes to the batch actor and its workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """Everything that a restarted actor needs."""

    config: str
    """The run's configuration as JSON."""
    folder: Path
    model: Path
    service_url: str
    api_key: str | None
    namespace: str
    """The Ray namespace of the engines."""
