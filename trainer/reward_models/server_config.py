"""Settings of a reward model's server, which are known before torch is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RewardServerConfig:
    """Settings of a served reward model."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8700
    device: str = "cpu"
    api_key: str | None = None
    """Secret that callers send as bearer token; None: no key is needed."""
