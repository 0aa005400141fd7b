"""Several engines as one policy: a request finds an engine, and survives those that die or take weights."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from trainer.errors import EngineError, EngineGone, EngineLost, Stalled

from .continuation import Continuation
from .generation import Finish
from .routing import choose_engine

if TYPE_CHECKING:
    from .engine import EngineStatus
    from .generation import Generation, GenerationRequest


logger = logging.getLogger(__name__)

GONE_LIMIT = 5
"""Times that an engine has to be called gone: one that is about to start again may be, for a moment."""


class RolloutEngine(Protocol):
    """One engine, as the pool sees it. Methods raise EngineLost when it is not there."""

    name: str

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample."""
        ...

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        """Log-probabilities of given tokens."""
        ...

    async def check_health(self) -> EngineStatus:
        """Answer when the model's loop has answered."""
        ...

    def kill(self) -> None:
        """End the process, so that another is started."""
        ...


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Seconds that the pool waits."""

    generate_s: float = 300.0
    """For one turn without a limit of its own, continuations and restarts included."""
    answer_s: float = 15.0
    """On top of a turn's limit, for an engine to hand over what it sampled."""
    revive_s: float = 300.0
    """For an engine that died to be there again; then it is given up."""
    health_every_s: float = 10.0
    hung_s: float = 60.0
    """An engine that is alive and does not answer for so long is killed."""
    retry_s: float = 0.5


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """One engine, for logs and metrics."""

    name: str
    up: bool
    running: int
    """Requests that this pool waits for."""
    losses: int
    """Times that it died."""
    idle_share: float
    """Of the time since the pool was made, without a request."""


@dataclass(slots=True)
class _Place:
    """An engine's place in the pool."""

    engine: RolloutEngine
    up: bool = True
    given_up: bool = False
    running: int = 0
    losses: int = 0
    busy_s: float = 0.0
    busy_since: float = 0.0
    reviving: asyncio.Task[None] | None = field(default=None, repr=False)


class EnginePool:
    """A Policy over engines. Use it as an asynchronous context to have their health watched."""

    def __init__(self, engines: Sequence[RolloutEngine], limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._places = {engine.name: _Place(engine) for engine in engines}
        self._changed = asyncio.Event()
        self._since = time.monotonic()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EnginePool:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Watch no longer; the engines stay."""
        tasks = [place.reviving for place in self._places.values()] + [self._watching]
        for task in tasks:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one turn, on as many engines as it takes; at its limit it ends with what there is of it.

        Raises:
            EngineError: an engine refused the request, or none is left.
            Stalled: no engine gave as much as a token within the limit, or what it had shortly after.
        """
        so_far = Continuation(request)
        limit_s = self._limits.generate_s if request.limit_s is None else request.limit_s
        late = (
            f"turn {request.key.turn} of episode {request.key.trajectory_id} was not sampled within "
            f"{limit_s:g} s"
        )
        deadline = time.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s + self._limits.answer_s):
                while True:
                    part = await self._part(so_far, deadline)
                    so_far = so_far.then(part)
                    if part.finish is Finish.ABORT and so_far.complete:
                        return so_far.ended(Finish.LENGTH)
                    if part.finish is Finish.TIMEOUT and not so_far.token_ids:
                        raise Stalled(f"{late}; engines: {self.health()}")
                    if part.finish is not Finish.ABORT:
                        return so_far.ended(part.finish)
        except TimeoutError as error:
            if isinstance(error, Stalled):
                raise
            raise Stalled(f"{late}; engines: {self.health()}") from error

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        """The log-probability of each token given those before it, by any engine. Raises as ``generate``."""
        try:
            async with asyncio.timeout(self._limits.generate_s):
                while True:
                    async with self._place("score") as place:
                        with self._survived(place):
                            return await place.engine.score_tokens(token_ids)
        except TimeoutError as error:
            raise Stalled(f"no log-probabilities within {self._limits.generate_s:g} s") from error

    def health(self) -> tuple[EngineHealth, ...]:
        """Each engine, as far as this pool knows."""
        now = time.monotonic()
        lifetime = max(now - self._since, 1e-9)
        return tuple(
            EngineHealth(
                name=name,
                up=place.up,
                running=place.running,
                losses=place.losses,
                idle_share=1 - (place.busy_s + (now - place.busy_since if place.running else 0)) / lifetime,
            )
            for name, place in self._places.items()
        )

    async def _part(self, so_far: Continuation, deadline: float) -> Generation:
        """What one engine gives of the rest; engines that die under it are left for others."""
        while True:
            async with self._place(so_far.request.key.trajectory_id) as place:
                with self._survived(place):
                    left_s = max(0.0, deadline - time.monotonic())
                    return await place.engine.generate(replace(so_far.rest(), limit_s=left_s))

    @contextlib.asynccontextmanager
    async def _place(self, key: str) -> AsyncIterator[_Place]:
        """An engine that is up, counted as busier by one."""
        place = await self._chosen(key)
        if place.running == 0:
            place.busy_since = time.monotonic()
        place.running += 1
        try:
            yield place
        finally:
            place.running -= 1
            if place.running == 0:
                place.busy_s += time.monotonic() - place.busy_since

    async def _chosen(self, key: str) -> _Place:
        while True:
            loads = {name: place.running for name, place in self._places.items() if place.up}
            if loads:
                return self._places[choose_engine(key, loads)]
            if all(place.given_up for place in self._places.values()):
                raise EngineError(f"no engine is left: {self.health()}")
            self._changed.clear()
            await self._changed.wait()

    @contextlib.contextmanager
    def _survived(self, place: _Place) -> Iterator[None]:
        """A loss is noted, and not raised."""
        try:
            yield
        except EngineLost as error:
            self._lost(place, str(error))

    def _lost(self, place: _Place, why: str) -> None:
        if not place.up:
            return
        place.up = False
        place.losses += 1
        logger.warning("%s is lost: %s", place.engine.name, why)
        place.reviving = asyncio.create_task(self._revive(place))

    async def _revive(self, place: _Place) -> None:
        """Ask until it answers again, or will not."""
        gone_in_a_row = 0
        try:
            async with asyncio.timeout(self._limits.revive_s):
                while not place.up and gone_in_a_row < GONE_LIMIT:
                    try:
                        await place.engine.check_health()
                        place.up = True
                    except EngineGone:
                        gone_in_a_row += 1
                        await asyncio.sleep(self._limits.retry_s)
                    except Exception as error:  # noqa: BLE001 - the deadline ends this, and nothing else does
                        gone_in_a_row = 0
                        logger.info("%s is not back: %s", place.engine.name, error)
                        await asyncio.sleep(self._limits.retry_s)
        except TimeoutError:
            logger.warning("%s did not come back within %g s", place.engine.name, self._limits.revive_s)
        place.given_up = not place.up
        self._changed.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._limits.health_every_s)
            await asyncio.gather(*(self._look(place) for place in self._places.values() if place.up))

    async def _look(self, place: _Place) -> None:
        """Raises nothing, so that one answer never ends the watching."""
        try:
            await asyncio.wait_for(place.engine.check_health(), self._limits.hung_s)
        except EngineLost as error:
            self._lost(place, str(error))
        except TimeoutError:
            place.engine.kill()
            self._lost(place, f"it did not answer for {self._limits.hung_s:g} s")
        except Exception:
            logger.exception("%s could not say how it is; it is asked again", place.engine.name)
