"""Settings of the stand-alone gateway; importing them loads no tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainer.config.model import ChatConfig
from trainer.model_gateway.prompts import PromptPolicy

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Retention:
    """The number of sessions that are kept, and for how long."""

    open_sessions: int = 4096
    idle_s: float = 3600.0
    """Without a call in progress, after which a session is ended."""
    ended_sessions: int = 1000
    """Ended sessions that can still be read."""
    ended_bytes: int = 2**29
    """Of their documents, in all."""


@dataclass(frozen=True, slots=True)
class StandAloneSettings:
    """Settings of the stand-alone gateway."""

    model: Path
    """The model's folder, for its tokenizer and chat template."""
    engine: str
    """URL of the vLLM server."""
    admin_key: str = field(repr=False)
    """Secret of the control routes."""
    engine_key: str | None = field(default=None, repr=False)
    engine_model: str | None = None
    """The model's name at the server, if it has several."""
    host: str = "127.0.0.1"
    port: int = 0
    public_url: str | None = None
    """Address of the gateway as agents see it."""
    prompts: PromptPolicy = PromptPolicy.SPLICE
    temperature: float = 1.0
    chat: ChatConfig = field(default_factory=ChatConfig)
    any_model: bool = True
    """Whether agents may call the model by any name."""
    export: Path | None = None
    retention: Retention = Retention()
