"""The Ray shell of an engine: an actor that dies with its engine, so that Ray starts another; its handle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayTaskError, WorkerCrashedError

from trainer.errors import EngineError, EngineGone, EngineLost, TrainerError
from trainer.tracking.logs import keep_log

from .backend import open_backend
from .engine import Engine
from .loop import EngineLoop
from .process_exit import end_process

if TYPE_CHECKING:
    from .backend import Part, PauseMode
    from .engine import EngineStatus
    from .generation import Generation, GenerationRequest
    from .options import EngineOptions
    from .placement import Neighbours


T = TypeVar("T")

CONTROL = "control"
WATCH_EVERY_S = 0.5


class EngineActor:
    """One engine in a process of its own. Methods are those of Engine, which they run in its own loop."""

    def __init__(self, options: EngineOptions, neighbours: Neighbours | None = None) -> None:
        log = None if options.logs is None else options.logs / f"{_own_name()}.log"
        if log is not None:
            keep_log(log)
        # Before the model is opened, which looks at the visible GPUs; held for as long as the engine lives.
        self._shares = neighbours.take() if neighbours is not None else []
        self._loop = EngineLoop()
        self._engine = Engine(open_backend(options), options)
        self._ready: asyncio.Task[None] | None = None
        if log is not None:
            keep_log(log, "vllm")  # whose logger is its own, and made anew by its import

    async def generate(self, request: GenerationRequest) -> Generation:
        generation: Generation = await self._loop.run(self._call("generate", request))
        return generation

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        logprobs: tuple[float, ...] = await self._loop.run(self._call("score_tokens", token_ids))
        return logprobs

    @ray.method(concurrency_group=CONTROL)
    async def control(self, verb: str, *arguments: object) -> object:
        """One of Engine's verbs; they get through however many requests are under way."""
        return await self._loop.run(self._call(verb, *arguments))

    async def _call(self, verb: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever the verb returns
        return await getattr(await self._there(), verb)(*arguments)

    async def _there(self) -> Engine:
        """The engine, with the newest weights."""
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._engine.load_newest_snapshot())
            self._watch = asyncio.ensure_future(self._die_with_engine())
        await asyncio.shield(self._ready)
        return self._engine

    async def _die_with_engine(self) -> None:
        while (why := self._failure()) is None:  # noqa: ASYNC110 - vLLM has no event for it
            await asyncio.sleep(WATCH_EVERY_S)
        logging.getLogger(__name__).error("the engine ends: %s", why)
        # Whoever waits for an answer gets it before the process is gone.
        await asyncio.sleep(WATCH_EVERY_S)
        end_process()

    def _failure(self) -> str | None:
        if self._ready is not None and self._ready.done() and (error := self._ready.exception()):
            return f"it could not take the newest weights: {error}"
        return self._engine.failure()


def _own_name() -> str:
    return ray.get_runtime_context().get_actor_name() or "engine"


def _ours(error: BaseException) -> BaseException:
    """Ray's words for what happened in the actor, in ours."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, TrainerError) else EngineError(f"{type(cause).__name__}: {cause}")
    if isinstance(error, ActorDiedError):
        return EngineGone(str(error))
    if isinstance(error, (RayActorError, WorkerCrashedError)):
        return EngineLost(str(error))
    return error


class RayEngine:
    """The other end of an EngineActor, for asynchronous callers and for those that wait for futures."""

    def __init__(self, name: str, actor: Any) -> None:  # noqa: ANN401 - Ray's handles have no type
        self.name = name
        self._actor = actor

    async def generate(self, request: GenerationRequest) -> Generation:
        """See Engine; a caller that is cancelled takes its request along."""
        answer: Generation = await self._awaited(self._actor.generate.remote(request))
        return answer

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        answer: tuple[float, ...] = await self._awaited(self._actor.score.remote(token_ids))
        return answer

    async def check_health(self) -> EngineStatus:
        answer: EngineStatus = await self._awaited(self._actor.control.remote("get_status"))
        return answer

    def kill(self) -> None:
        """End the process; Ray starts another, within its limit of restarts."""
        ray.kill(self._actor, no_restart=False)

    def stop(self) -> None:
        """End it for good."""
        ray.kill(self._actor)

    def get_status(self) -> Future[Any]:
        """Its EngineStatus, for those who wait for futures (whose type knows no subtypes)."""
        return self._control("get_status")

    def pause_generation(self, mode: PauseMode) -> Future[None]:
        return self._control("pause_generation", mode)

    def resume_generation(self) -> Future[None]:
        return self._control("resume_generation")

    def enter_sleep(self, mode: PauseMode) -> Future[None]:
        return self._control("enter_sleep", mode)

    def wake_up(self, part: Part) -> Future[None]:
        return self._control("wake_up", part)

    def connect_learner(self, info: Mapping[str, object]) -> Future[None]:
        return self._control("connect_learner", dict(info))

    def disconnect_learner(self) -> Future[None]:
        return self._control("disconnect_learner")

    def begin_update(self, contents: bool) -> Future[None]:
        return self._control("begin_update", contents)

    def update_weights(self, info: Mapping[str, object]) -> Future[None]:
        return self._control("update_weights", dict(info))

    def finish_update(self, version: int) -> Future[None]:
        return self._control("finish_update", version)

    def get_receipts(self) -> Future[tuple[int, tuple[dict[str, Any], ...]]]:
        return self._control("get_receipts")

    def load_newest_snapshot(self) -> Future[None]:
        return self._control("load_newest_snapshot")

    def load_adapter(self, version: int, folder: str) -> Future[None]:
        return self._control("load_adapter", version, folder)

    def score_sequences(
        self, sequences: tuple[tuple[int, ...], ...]
    ) -> Future[tuple[tuple[float, ...], ...]]:
        return self._control("score_sequences", sequences)

    def sample_text(self, sequences: int, tokens: int) -> Future[tuple[tuple[int, ...], ...]]:
        return self._control("sample_text", sequences, tokens)

    def _control(self, verb: str, *arguments: object) -> Future[Any]:
        answer: Future[Any] = Future()
        asked: Future[Any] = self._actor.control.remote(verb, *arguments).future()

        def pass_on(done: Future[Any]) -> None:
            if (error := done.exception()) is not None:
                answer.set_exception(_ours(error))
            else:
                answer.set_result(done.result())

        asked.add_done_callback(pass_on)
        return answer

    async def _awaited(self, reference: Any) -> Any:  # noqa: ANN401 - whatever the method returns
        try:
            return await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except (RayTaskError, RayActorError, WorkerCrashedError) as error:
            raise _ours(error) from error
