"""Which policy a word means: ``reference``, ``random``, ``empty``, ``script`` or ``openai:MODEL@URL``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.environments.registry import build_registry

from .model_policy import ModelPolicy, Sampling
from .policies import EmptyPolicy, PolicyError, ReferencePolicy, read_script
from .random_policy import RandomPolicy

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig

    from .chat_server import ChatServer
    from .policies import Policy


NAMES = ("reference", "random", "empty", "script", "openai:MODEL@URL")
_MODEL = "openai:"
_SECRET = re.compile(r"//[^/@]*@")


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy's word, and what only some policies read."""

    name: str
    script: Path | None = None
    seed: int = 0
    sampling: Sampling | None = None
    timeout_s: float = 240.0
    """Longest wait for one answer of a model, all attempts together."""
    api_key: str | None = None

    @property
    def label(self) -> str:
        """The word without what its address may have of a password."""
        return _SECRET.sub("//", self.name)


def make_policy(choice: PolicyChoice, env: str, config: ServiceConfig) -> Policy:
    """The policy of a choice. Raises PolicyError, ServiceError."""
    if (choice.name == "script") != (choice.script is not None):
        raise PolicyError("--policy script and --script FILE belong together", "usage")
    if choice.script is not None:
        return read_script(choice.script)
    if choice.name.startswith(_MODEL):
        model, url = _model_of(choice.name)
        return ModelPolicy(model, _server(url, choice), choice.sampling)
    match choice.name:
        case "reference":
            return ReferencePolicy(build_registry(config.environments).catalog(env))
        case "random":
            return RandomPolicy(choice.seed)
        case "empty":
            return EmptyPolicy()
    raise PolicyError(f"there is no policy {choice.name!r}; there are: {', '.join(NAMES)}", "usage")


def _server(url: str, choice: PolicyChoice) -> ChatServer:
    try:
        from .chat_server import ChatServer
    except ModuleNotFoundError as error:
        if error.name != "openai":
            raise
        raise PolicyError(
            "a model's policy needs the package 'openai'; "
            "install it with: pip install 'training-sandbox[model-policy]'",
            "usage",
        ) from error
    return ChatServer(url, choice.api_key, timeout_s=choice.timeout_s)


def _model_of(name: str) -> tuple[str, str]:
    """Model and address; both may contain ``@``, so the address begins where ``@http`` does."""
    model, mark, address = name.removeprefix(_MODEL).partition("@http")
    if not model or not mark:
        raise PolicyError(f"write {_MODEL}MODEL@http://HOST:PORT, not {name!r}", "usage")
    return model, f"http{address}"
