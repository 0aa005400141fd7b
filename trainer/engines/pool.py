"""A pool of engines as one policy: requests are routed, and continued when an engine dies or pauses."""

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
    from trainer.config.engine import EngineConfig, SyncConfig
    from trainer.config.rollout import RolloutConfig
    from trainer.weight_sync.engines import EngineStatus

    from .generation import Generation, GenerationRequest


logger = logging.getLogger(__name__)

GONE_LIMIT = 5
"""Consecutive answers that an engine is gone for good (EngineGone) before it is given up. Ray may call an
engine gone for a moment while it restarts it.
"""


class RolloutEngine(Protocol):
    """One engine, as the pool uses it. Methods raise EngineLost when its process is gone."""

    name: str

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one turn or a part of it."""
        ...

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        """Return the log-probabilities of given tokens."""
        ...

    async def check_health(self) -> EngineStatus:
        """Return the engine's state, after the model's loop has answered."""
        ...

    def kill(self) -> None:
        """Kill the process, so that the engine is restarted."""
        ...


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Time limits of a pool, in seconds."""

    generate_s: float = 300.0
    """Of a turn without a limit of its own, with continuations and restarts."""
    answer_s: float = 15.0
    """Added to a turn's limit, for an engine to return what it sampled."""
    revive_s: float = 300.0
    """Of a lost engine's return, after which it is given up."""
    load_s: float = 300.0
    """Of the answer of an engine that has restarted, after which it is killed; it loads the newest weights
    before it answers.
    """
    health_every_s: float = 10.0
    hung_s: float = 60.0
    """Of an answer to a health check, after which the engine is killed."""
    retry_s: float = 0.5

    @classmethod
    def of(cls, engine: EngineConfig, sync: SyncConfig, rollout: RolloutConfig) -> PoolLimits:
        """Return the limits of a run."""
        return cls(
            generate_s=rollout.generate_timeout_s,
            revive_s=engine.start_timeout_s,
            load_s=max(engine.start_timeout_s, sync.timeout_s),
            health_every_s=engine.health_every_s,
            hung_s=engine.hung_s,
        )


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """One engine, for logs and metrics."""

    name: str
    up: bool
    running: int
    """Requests of this pool in progress."""
    losses: int
    """Number of times that it was lost."""
    idle_share: float
    """Share of the time since the pool was created in which it had no request."""


@dataclass(slots=True)
class _Member:
    """An engine of the pool, and what the pool knows of it."""

    engine: RolloutEngine
    up: bool = True
    given_up: bool = False
    running: int = 0
    losses: int = 0
    busy_s: float = 0.0
    busy_since: float = 0.0
    reviving: asyncio.Task[None] | None = field(default=None, repr=False)


class EnginePool:
    """A Policy over engines. As an asynchronous context manager it checks their health."""

    def __init__(self, engines: Sequence[RolloutEngine], limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._members = {engine.name: _Member(engine) for engine in engines}
        self._changed = asyncio.Event()
        self._since = time.monotonic()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EnginePool:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the health checks; the engines keep running."""
        tasks = [place.reviving for place in self._members.values()] + [self._watching]
        for task in tasks:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one turn, on several engines if necessary; at its limit it ends with the tokens so far.

        Raises:
            EngineError: an engine refused the request, or no engine is left.
            Stalled: no engine sampled a token within the limit, or returned its tokens shortly after it.
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
            # Stalled is a TimeoutError, too, and says more than the one of the block.
            if isinstance(error, Stalled):
                raise
            raise Stalled(f"{late}; engines: {self.health()}") from error

    async def score_tokens(self, token_ids: tuple[int, ...]) -> tuple[float, ...]:
        """Return the log-probability of each token given those before it. Raises as ``generate``."""
        try:
            async with asyncio.timeout(self._limits.generate_s):
                while True:
                    async with self._place("score") as place:
                        with self._survived(place):
                            return await place.engine.score_tokens(token_ids)
        except TimeoutError as error:
            raise Stalled(f"no log-probabilities within {self._limits.generate_s:g} s") from error

    def health(self) -> tuple[EngineHealth, ...]:
        """Return the state of each engine, as known to this pool."""
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
            for name, place in self._members.items()
        )

    async def _part(self, so_far: Continuation, deadline: float) -> Generation:
        """Return the next part of a turn; if an engine is lost, another one is tried."""
        while True:
            async with self._place(so_far.request.key.trajectory_id) as place:
                with self._survived(place):
                    left_s = max(0.0, deadline - time.monotonic())
                    return await place.engine.generate(replace(so_far.next_request(), limit_s=left_s))

    @contextlib.asynccontextmanager
    async def _place(self, key: str) -> AsyncIterator[_Member]:
        """Choose an engine that is up, and count the request for the duration of the block."""
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

    async def _chosen(self, key: str) -> _Member:
        while True:
            loads = {name: place.running for name, place in self._members.items() if place.up}
            if loads:
                return self._members[choose_engine(key, loads)]
            if all(place.given_up for place in self._members.values()):
                raise EngineError(f"no engine is left: {self.health()}")
            # Nothing is awaited between the look and the wait, so a return in between is not missed.
            self._changed.clear()
            await self._changed.wait()

    @contextlib.contextmanager
    def _survived(self, place: _Member) -> Iterator[None]:
        """Record the loss of an engine in the block, instead of raising it."""
        try:
            yield
        except EngineLost as error:
            self._lost(place, str(error))

    def _lost(self, place: _Member, why: str) -> None:
        # Every request on the engine reports the same loss; one task waits for its restart.
        if not place.up:
            return
        place.up = False
        place.losses += 1
        logger.warning("%s was lost: %s", place.engine.name, why)
        place.reviving = asyncio.create_task(self._revive(place))

    async def _revive(self, place: _Member) -> None:
        """Wait for a lost engine; one that takes too long is given up until it answers all the same."""
        late = asyncio.get_running_loop().call_later(self._limits.revive_s, self._give_up, place)
        try:
            await self._returned(place)
        finally:
            late.cancel()
        place.given_up = not place.up
        self._changed.set()

    def _give_up(self, place: _Member) -> None:
        logger.warning("%s did not come back within %g s", place.engine.name, self._limits.revive_s)
        place.given_up = True
        self._changed.set()

    async def _returned(self, place: _Member) -> None:
        """Check an engine until it answers or is gone for good; raises nothing."""
        gone_in_a_row = 0
        while not place.up and gone_in_a_row < GONE_LIMIT:
            gone = False
            try:
                # One that still starts refuses a check; one that loads the newest weights lets it wait.
                async with asyncio.timeout(self._limits.load_s):
                    await place.engine.check_health()
                place.up = True
            except EngineGone:
                gone = True
            except TimeoutError:
                self._end_hung(place)
            except Exception as error:  # noqa: BLE001 - an engine that starts fails in many ways
                logger.info("%s is not back: %s", place.engine.name, error)
            gone_in_a_row = gone_in_a_row + 1 if gone else 0
            if not place.up:
                await asyncio.sleep(self._limits.retry_s)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._limits.health_every_s)
            await asyncio.gather(*(self._look(place) for place in self._members.values() if place.up))

    async def _look(self, place: _Member) -> None:
        """Check one engine; raises nothing, so that the checks go on."""
        try:
            # Not ``wait_for``, whose cancellation is lost when the answer comes with it (Python 3.11).
            async with asyncio.timeout(self._limits.hung_s):
                await place.engine.check_health()
        except EngineLost as error:
            self._lost(place, str(error))
        except TimeoutError:
            self._end_hung(place)
            self._lost(place, f"it did not answer for {self._limits.hung_s:g} s (engine.hung_s)")
        except Exception:
            logger.exception("the health check of %s failed; it is repeated", place.engine.name)

    def _end_hung(self, place: _Member) -> None:
        """Kill an engine: a hung process keeps its GPU, and only its death makes Ray start another.

        Raises nothing: one that could not be killed is checked like any lost engine, and killed later.
        """
        try:
            place.engine.kill()
        except Exception:
            logger.exception("%s does not answer and could not be killed", place.engine.name)
