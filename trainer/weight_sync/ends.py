"""The two ends of a weight sync: a learner that has weights, and engines that want them. Protocols only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np
    from torch import Tensor

    from .receipt import Plain


class WeightOwner(Protocol):
    """The learner. Every rank calls every method, at the same time."""

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights in full, under Hugging Face's names, in the same order each time."""
        ...

    def probe(self, sequences: Sequence[tuple[int, ...]]) -> Sequence[np.ndarray]:
        """The log-probability of each token given those before it; the first of each sequence is ignored."""
        ...

    def adapter(self, folder: Path) -> None:
        """Write the LoRA adapter as peft does; rank 0 writes."""
        ...


class EngineFacts(Protocol):
    """What a weight sync wants to know of an engine."""

    @property
    def version(self) -> int:
        """Of the weights that it samples with."""
        ...

    @property
    def incarnation(self) -> str:
        """Another one after each start."""
        ...

    @property
    def workers(self) -> int:
        """Model workers (tensor parallel)."""
        ...

    @property
    def paused(self) -> bool:
        """It samples nothing until somebody resumes it."""
        ...


class EngineHandle(Protocol):
    """One engine. Futures end with EngineLost when it is not there."""

    name: str

    def get_status(self) -> Future[EngineFacts]:
        """How it is, once the model's loop has answered."""
        ...

    def pause_generation(self, mode: Literal["keep", "abort"]) -> Future[None]:
        """Sample nothing until ``resume``."""
        ...

    def resume_generation(self) -> Future[None]:
        """Go on."""
        ...

    def enter_sleep(self, mode: Literal["keep", "abort"]) -> Future[None]:
        """Leave the GPU's memory to the learner."""
        ...

    def wake_up(self, part: Literal["weights", "kv_cache"]) -> Future[None]:
        """Take the memory of a part back, of an engine that sleeps; with the cache it goes on."""
        ...

    def connect_learner(self, info: Mapping[str, object]) -> Future[None]:
        """Meet the learner."""
        ...

    def disconnect_learner(self) -> Future[None]:
        """Forget the learner that was met."""
        ...

    def begin_update(self, contents: bool) -> Future[None]:
        """Weights are coming; whether to compute checksums of their contents."""
        ...

    def update_weights(self, info: Mapping[str, object]) -> Future[None]:
        """Take some or all of them."""
        ...

    def finish_update(self, version: int) -> Future[None]:
        """They are complete."""
        ...

    def get_receipts(self) -> Future[tuple[int, tuple[Plain, ...]]]:
        """The version of the weight sync that it took last, and what each of its workers got of it."""
        ...

    def load_newest_snapshot(self) -> Future[None]:
        """Take the newest snapshot from where it lies."""
        ...

    def load_adapter(self, version: int, folder: str) -> Future[None]:
        """Sample with a LoRA adapter from the next request on."""
        ...

    def score_sequences(
        self, sequences: tuple[tuple[int, ...], ...]
    ) -> Future[tuple[tuple[float, ...], ...]]:
        """The log-probability of each token of each sequence given those before it; 0 for the first."""
        ...

    def sample_text(self, sequences: int, tokens: int) -> Future[tuple[tuple[int, ...], ...]]:
        """Text of the model's own: so many sequences, sampled from nothing but a token that begins a text."""
        ...
