"""One rollout engine: token ids in; token ids, log-probabilities and weight versions out. Knows no Ray.

It samples, or it takes weights; while it takes them, requests wait or are aborted. An update that breaks off
leaves weights that are nobody's: then the engine counts as failed, and whoever runs it starts another, which
begins with the newest snapshot.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.errors import EngineError, EngineLost
from trainer.types import VersionSpan
from trainer.weight_sync.snapshots import newest_snapshot

from .backend import Adapter, SamplingRequest, open_backend
from .generation import Finish, Generation, Sampling

if TYPE_CHECKING:
    from .backend import EngineBackend, Part, PauseMode
    from .generation import GenerationRequest
    from .options import EngineOptions


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """An engine's answer to how it is."""

    version: int
    """Of the weights that it samples with."""
    incarnation: str
    """Another one after each start."""
    process: int
    """Its process, on its machine."""
    workers: int
    """Model workers (tensor parallel)."""
    running: int
    """Requests under way."""
    paused: bool
    generated: int
    """Tokens since the start."""
    context: int
    """Tokens of a sequence, at most."""


class Engine:
    """A model that samples."""

    def __init__(self, backend: EngineBackend, options: EngineOptions) -> None:
        self._backend = backend
        self._options = options
        self._incarnation = uuid.uuid4().hex
        self._version = 0
        self._adapter: Adapter | None = None
        self._numbers = itertools.count(1)
        self._running = 0
        self._generated = 0
        self._paused = False
        self._asleep = False
        self._updating = False
        self._failure: str | None = None
        self._receipts: tuple[Mapping[str, object], ...] = ()

    @classmethod
    async def open(cls, options: EngineOptions) -> Engine:
        """Load the model, then the newest snapshot if there is one."""
        engine = cls(await asyncio.to_thread(open_backend, options), options)
        await engine.load_newest_snapshot()
        return engine

    async def load_newest_snapshot(self) -> None:
        """Take the newest snapshot; without one the model is version 0."""
        folder = self._options.snapshots
        snapshot = newest_snapshot(folder) if folder is not None else None
        if snapshot is None:
            await self._backend.set_weight_version(self._version)
        elif snapshot.kind == "adapter":
            await self._backend.set_weight_version(0)
            await self.load_adapter(snapshot.version, str(snapshot.path))
        else:
            self._receipts = await self._update("load_snapshot", {"path": str(snapshot.path)})
            await self._backend.set_weight_version(snapshot.version)
            self._version = snapshot.version

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one turn, or what is left of it; a full context ends it as LENGTH, its limit as TIMEOUT.

        Raises:
            EngineError: vLLM refused it.
            EngineLost: the engine died.
        """
        room = min(request.max_tokens, self._backend.context - len(request.token_ids))
        if room <= 0:
            return Generation((), (), Finish.LENGTH, ())
        seed = request.seed if self._options.seeded else None
        sampling = SamplingRequest(
            request.token_ids, room, request.sampling, seed, self._adapter, request.limit_s
        )
        began = time.monotonic()
        self._running += 1
        try:
            generation = await self._backend.generate(sampling)
        finally:
            self._running -= 1
        self._generated += len(generation.token_ids)
        late = sampling.limit_s is not None and time.monotonic() - began >= sampling.limit_s
        if generation.finish is Finish.ABORT and late:
            generation = replace(generation, finish=Finish.TIMEOUT)
        return _labelled(generation, sampling.adapter)

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        """The log-probability of each token given those before it; 0 for the first."""
        return await self._backend.score_tokens(token_ids, self._adapter)

    async def score_sequences(self, sequences: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """``score`` of several sequences."""
        return tuple(await asyncio.gather(*(self.score_tokens(sequence) for sequence in sequences)))

    async def sample_text(self, sequences: int, tokens: int) -> tuple[tuple[int, ...], ...]:
        """Text of the model's own: sequences that it samples behind a token that begins a text."""
        first = (first_token(self._options.model),)
        count = min(tokens, self._backend.context - 2)
        drawn = await asyncio.gather(
            *(
                self._backend.generate(SamplingRequest(first, count, Sampling(), seed, self._adapter))
                for seed in range(sequences)
            )
        )
        return tuple(first + generation.token_ids for generation in drawn)

    async def pause_generation(self, mode: PauseMode) -> None:
        """Sample nothing until ``resume``."""
        await self._backend.pause_generation(mode)
        self._paused = True

    async def resume_generation(self) -> None:
        """Go on. Raises EngineError when an update was begun and not finished."""
        if self._updating:
            raise self._broken("an update of the weights was never finished")
        await self._backend.resume_generation()
        self._paused = False

    async def enter_sleep(self, mode: PauseMode) -> None:
        """Leave the GPU's memory to the learner until ``wake``; one that sleeps already stays as it is.

        Requests wait or are aborted, as in ``pause``.
        """
        if not self._asleep:
            self._paused = True
            await self._backend.enter_sleep(mode)
            self._asleep = True

    async def wake_up(self, part: Part) -> None:
        """Take the memory of a part back: the weights first, then the cache, with which sampling goes on.

        An engine that is awake, such as one that was started again, stays as it is.

        Raises:
            EngineLost: there is no room for it any more.
        """
        if not self._asleep:
            return
        try:
            await self._backend.wake_up(part)
        except Exception as error:
            raise self._broken(
                f"it could not take its memory back: {type(error).__name__}: {error}"
            ) from error
        if part == "kv_cache":
            self._asleep = False
            await self.resume_generation()

    async def connect_learner(self, info: Mapping[str, object]) -> None:
        """Meet the learner, for media that need it."""
        await self._backend.call("init_weight_transfer_engine", {"init_info": dict(info)})

    async def disconnect_learner(self) -> None:
        """Forget a learner that is gone."""
        await self._backend.call("shutdown_weight_transfer_engine", {})

    async def begin_update(self, contents: bool) -> None:
        """Weights are coming, of which receipts have checksums of the ``contents``, or have none.

        Raises:
            EngineError: the ones before never came to an end.
        """
        if self._updating:
            raise self._broken("an update of the weights was never finished")
        self._updating = True
        await self._update("record_weights", {"contents": contents})
        await self._update("start_weight_update", {})

    async def update_weights(self, info: Mapping[str, object]) -> None:
        """Take some or all of them."""
        await self._update("update_weights", {"update_info": dict(info)})

    async def finish_update(self, version: int) -> None:
        """They are complete: sample with them, under this version."""
        self._receipts = await self._update("weights_receipt", {})
        await self._update("finish_weight_update", {})
        await self._backend.set_weight_version(version)
        self._version = version
        self._updating = False

    async def load_adapter(self, version: int, folder: str) -> None:
        """Sample with a LoRA adapter from the next request on; those under way end with theirs."""
        adapter = Adapter(next(self._numbers), version, folder)
        await self._backend.load_adapter(adapter)
        self._receipts = await self._backend.call(
            "adapter_receipt", {"number": adapter.number, "folder": adapter.folder}
        )
        self._adapter = adapter
        self._version = version

    async def get_receipts(self) -> tuple[int, tuple[Mapping[str, object], ...]]:
        """The version that it samples with, and what each worker got of it; see trainer.weight_sync."""
        return self._version, self._receipts

    async def get_status(self) -> EngineStatus:
        """Answer when the model's loop has answered. Raises EngineLost when it is gone."""
        if (why := self.failure()) is not None:
            raise EngineLost(why)
        await self._backend.check_health()
        return EngineStatus(
            version=self._version,
            incarnation=self._incarnation,
            process=os.getpid(),
            workers=self._options.workers,
            running=self._running,
            paused=self._paused,
            generated=self._generated,
            context=self._backend.context,
        )

    def failure(self) -> str | None:
        """Why this engine is of no use any more; None while it is."""
        return self._failure or self._backend.failure()

    def close(self) -> None:
        """Stop; a second time does nothing."""
        self._backend.close()

    async def _update(self, method: str, arguments: Mapping[str, object]) -> tuple[Any, ...]:
        try:
            return await self._backend.call(method, arguments)
        except Exception as error:
            raise self._broken(f"{method} failed: {type(error).__name__}: {error}") from error

    def _broken(self, why: str) -> EngineError:
        self._failure = why
        return EngineLost(why)


def first_token(model: Path) -> int:
    """The id of a token that a text may begin with, as the model's files say; 0 where they do not."""
    said = json.loads((model / "config.json").read_text(encoding="utf-8"))
    for name in ("bos_token_id", "eos_token_id"):
        found = said.get(name)
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, int):
            return found
    return 0


def _labelled(generation: Generation, adapter: Adapter | None) -> Generation:
    """An adapter's version is what counts where there is one: the model below it stays as it is."""
    if adapter is None or not generation.token_ids:
        return generation
    span = VersionSpan(0, len(generation.token_ids), adapter.version)
    return replace(generation, versions=(span,))
