"""What an engine needs of whatever runs the model: sample, score, pause, take weights.

Two implementations over vLLM: one steps the model in this process, the other leaves it to vLLM's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from .generation import Generation, Sampling
    from .options import EngineOptions


PauseMode: TypeAlias = Literal["keep", "abort"]
Part: TypeAlias = Literal["weights", "kv_cache"]
"""What an engine has in a GPU's memory, as vLLM calls it."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter that samples in place of the bare model."""

    number: int
    """Another one for each adapter that an engine is given, from 1; versions may come twice."""
    version: int
    folder: str


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """One request as it is put to the model."""

    token_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    seed: int | None
    adapter: Adapter | None
    limit_s: float | None = None
    """Seconds after which it ends as aborted, with what was sampled."""


class EngineBackend(Protocol):
    """Runs the model. Every method raises EngineLost when the model's process or thread is gone."""

    context: int
    """Tokens of a sequence, at most."""

    async def generate(self, request: SamplingRequest) -> Generation:
        """Sample; versions are those that were set while the tokens were sampled."""
        ...

    async def score_tokens(self, token_ids: tuple[int, ...], adapter: Adapter | None) -> tuple[float, ...]:
        """The log-probability of each token given those before it; 0 for the first."""
        ...

    async def pause_generation(self, mode: PauseMode) -> None:
        """Sample nothing until ``resume``: what is under way is kept, or ends as aborted."""
        ...

    async def resume_generation(self) -> None:
        """Go on sampling."""
        ...

    async def enter_sleep(self, mode: PauseMode) -> None:
        """Pause, keep the weights in host memory, and give up the cache: the GPU's memory is free."""
        ...

    async def wake_up(self, part: Part) -> None:
        """Take a part's memory back; sampling goes on with the last one."""
        ...

    async def call(self, method: str, arguments: Mapping[str, object]) -> tuple[Any, ...]:
        """A method of each of vLLM's workers; their answers, of lists, dictionaries and strings."""
        ...

    async def set_weight_version(self, version: int) -> None:
        """Other weights are in place: forget what the former computed, and label tokens with the version."""
        ...

    async def load_adapter(self, adapter: Adapter) -> None:
        """Read an adapter's files."""
        ...

    async def check_health(self) -> None:
        """Return when the model's loop has answered."""
        ...

    def failure(self) -> str | None:
        """Why nothing works any more; None while all is well."""
        ...

    def close(self) -> None:
        """Stop; a second time does nothing."""
        ...


def open_backend(options: EngineOptions) -> EngineBackend:
    """Load the model, which blocks for some seconds. vLLM is imported here and not before."""
    if options.in_process:
        from .in_process_backend import InProcessBackend

        return InProcessBackend(options)
    from .async_backend import AsyncBackend

    return AsyncBackend(options)
