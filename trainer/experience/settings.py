"""What the experience's actors are told, so that each can be made again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """All that an actor needs to be made again."""

    config: str
    """The run's configuration as JSON."""
    folder: Path
    model: Path
    service_url: str
    api_key: str | None
    namespace: str
    """Where the engines are."""
