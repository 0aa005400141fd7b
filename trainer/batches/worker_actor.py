"""Episode workers as Ray actors: each has its own client, tokenizer and connection to the engines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError, WorkerCrashedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainer.chat import ChatTokenizer
from trainer.config import RunConfig
from trainer.engines.fleet import engine_handles
from trainer.engines.pool import EnginePool, PoolLimits
from trainer.errors import EngineLost, TrainerError
from trainer.rollout.progress import EpisodePhase, ProgressMonitor
from trainer.tracking.logs import keep_log

from .built_once import BuiltOnce
from .players import freeze_startup_objects, open_client, start_player

if TYPE_CHECKING:
    from trainer.agents.player import AgentPlayer
    from trainer.config.rollout import SamplingConfig
    from trainer.rollout.episode import EpisodePlayer
    from trainer.types import GroupSpec, Trajectory

    from .settings import ActorSettings


_CALLS = 10_000
_CLOSE_S = 30.0


async def open_pool(config: RunConfig, namespace: str) -> EnginePool:
    """Return the run's engines as one policy; their health is watched until it is closed."""
    engines = engine_handles(config.engine_settings, namespace) if config.steps else ()
    limits = PoolLimits.of(config.engine, config.sync, config.rollout)
    return await EnginePool(engines, limits).__aenter__()


class EpisodeWorkerActor:
    """Plays episodes. It begins with the first call, and so again after a restart."""

    def __init__(self, settings: ActorSettings, number: int) -> None:
        keep_log(settings.folder / "logs" / f"episodes-{number}.log")
        self._settings = settings
        self._watch = ProgressMonitor()
        self._player = BuiltOnce(self._start)
        self._pool: EnginePool | None = None

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode."""
        player = await self._player.get_built()
        try:
            return await player.play_episode(spec, member, sampling)
        finally:
            self._watch.episode_ended(spec.trajectory_id(member), verdict=True)

    async def prepare_instance(self, spec: GroupSpec, member: int) -> None:
        """Create an episode's instance before it may begin."""
        (await self._player.get_built()).prepare_instance(spec, member)

    async def phases(self) -> Sequence[EpisodePhase]:
        """Phases of all episodes under way."""
        return self._watch.phases()

    async def close(self) -> None:
        """Release the instances of episodes that are not played."""
        player = await self._player.stop_building()
        if player is not None:
            await player.close()
            await player.client.aclose()
        if self._pool is not None:
            await self._pool.close()

    async def _start(self) -> EpisodePlayer | AgentPlayer:
        given = self._settings
        config = RunConfig.model_validate_json(given.config)
        self._pool = self._pool or await open_pool(config, given.namespace)
        chat = ChatTokenizer(given.model, config.chat)
        client = open_client(config.service, given.service_url, given.api_key)
        player = await start_player(config, given.folder, client, self._pool, chat, self._watch)
        freeze_startup_objects()
        return player


class RayEpisodeWorker:
    """The other end of an EpisodeWorkerActor."""

    def __init__(self, name: str, actor: Any) -> None:  # noqa: ANN401 - Ray's handles have no type
        self.name = name
        self._actor = actor

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """See EpisodeWorker."""
        played: Trajectory = await self._awaited(self._actor.play_episode.remote(spec, member, sampling))
        return played

    def prepare_instance(self, spec: GroupSpec, member: int) -> None:
        """See EpisodeWorker."""
        self._actor.prepare_instance.remote(spec, member)

    async def phases(self) -> Sequence[EpisodePhase]:
        """See EpisodeWorker."""
        phases: Sequence[EpisodePhase] = await self._awaited(self._actor.phases.remote())
        return phases

    async def close(self) -> None:
        """See EpisodeWorker."""
        with contextlib.suppress(TrainerError, RayError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._awaited(self._actor.close.remote())
        ray.kill(self._actor)

    def kill(self) -> None:
        """See EpisodeWorker."""
        ray.kill(self._actor, no_restart=False)

    async def _awaited(self, reference: Any) -> Any:  # noqa: ANN401 - whatever the method returns
        try:
            return await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except RayTaskError as error:
            if isinstance(error.cause, TrainerError):
                raise error.cause from error
            raise
        except (RayActorError, WorkerCrashedError) as error:
            raise EngineLost(f"{self.name} died: {error}") from error


def start_workers(
    settings: ActorSettings, count: int, variables: Mapping[str, str]
) -> Sequence[RayEpisodeWorker]:
    """Start so many workers on this machine; they end with the actor that started them."""
    node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    kind = ray.remote(EpisodeWorkerActor).options(
        num_cpus=0,
        max_restarts=-1,
        max_concurrency=_CALLS,
        runtime_env={"env_vars": dict(variables)},
        scheduling_strategy=node,
    )
    return [
        RayEpisodeWorker(f"episode worker {number}", kind.remote(settings, number)) for number in range(count)
    ]
