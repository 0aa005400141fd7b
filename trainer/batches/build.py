"""Build the batch producer of a run; the caller chooses the policy: engines, or a script."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sandbox_client import AsyncSandboxClient, ClientLimits
from trainer.agents.launchers import make_launcher
from trainer.agents.player import AgentPlayer
from trainer.chat import ChatTokenizer
from trainer.distillation.player import player_with_teacher
from trainer.distillation.server import TeacherServer
from trainer.errors import ConfigError, TeacherFailed
from trainer.offline.prepare import prepare_stage
from trainer.outcomes.opening import open_learned, open_outcomes
from trainer.outcomes.player import OutcomeRewards, rewarded_player
from trainer.reward.compose import score
from trainer.rollout.base_player import context_limit
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.progress import ProgressMonitor
from trainer.rollout.reflection import ReflectivePlayer
from trainer.sft.warm_start import prepare_warm_start
from trainer.tracking.opening import open_tracker

from .dependencies import Dependencies, StageData
from .producer import BatchProducer
from .workers import WorkerPlayer

if TYPE_CHECKING:
    from trainer.agents.launcher import AgentLauncher
    from trainer.config import RewardConfig, RunConfig, SandboxServiceConfig
    from trainer.config.agent import AgentConfig
    from trainer.engines.generation import Policy
    from trainer.reward.compose import Scored
    from trainer.rollout.attempts import AttemptPlayer
    from trainer.types import Trajectory

    from .workers import EpisodeWorker


_Player: TypeAlias = EpisodePlayer | AgentPlayer | WorkerPlayer


def freeze_startup_objects() -> None:
    """Leave the objects of all modules out of garbage collections, for a process that plays episodes.

    Each full collection would visit those of torch and transformers again, a million or so.
    """
    gc.collect()
    gc.freeze()


def open_client(service: SandboxServiceConfig, url: str, api_key: str | None = None) -> AsyncSandboxClient:
    """Return a client of the run's service."""
    limits = ClientLimits(in_flight=service.in_flight, creating=service.creating, agents=service.in_flight)
    return AsyncSandboxClient(url, api_key, limits=limits)


def make_player(
    config: RunConfig,
    folder: Path,
    client: AsyncSandboxClient,
    policy: Policy,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
) -> EpisodePlayer | AgentPlayer:
    """Return what plays episodes in this process: the trainer's own loop, or the run's agent, not started.

    Raises ConfigError if neither the model nor the settings limit the length of a conversation.
    """
    player: EpisodePlayer | AgentPlayer
    reflection = config.rollout.reflection if config.steps else None
    if reflection is not None and config.agent is not None:
        raise ConfigError("a reflection needs the trainer's own loop: leave agent or the reflection out")
    if reflection is not None and reflection.fork_turn is not None and config.rollout.counterpart is not None:
        raise ConfigError("a counterpart cannot be forked: leave rollout.counterpart or fork_turn out")
    if reflection is not None:
        parts = (config.rollout, config.service, watch, reflection, folder)
        player = ReflectivePlayer(client, policy, chat, *parts)
    elif config.agent is None or not config.steps:
        player = EpisodePlayer(client, policy, chat, config.rollout, config.service, watch)
    else:
        launcher = _launcher(config.agent, config, folder, client)
        player = AgentPlayer(
            config.agent, launcher, client, policy, chat, config.rollout, config.service, watch
        )
    return player


def _launcher(
    agent: AgentConfig, config: RunConfig, folder: Path, client: AsyncSandboxClient
) -> AgentLauncher:
    hidden = frozenset({config.service.api_key_variable})
    return make_launcher(agent, folder / "logs", hidden, client, config.tasks.environments[0])


@asynccontextmanager
async def open_demonstrating_agent(
    config: RunConfig,
    agent: AgentConfig,
    folder: Path,
    client: AsyncSandboxClient,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
    policy: Policy,
) -> AsyncIterator[AgentPlayer]:
    """Open the run's agent for the warm start: each message of a demonstration answers one of its calls, so
    that the model is fine-tuned behind the agent's own prompts.
    """
    # A demonstration has as many calls as messages.
    unlimited = agent.model_copy(update={"max_calls": None, "sampled_tokens": None})
    launcher = _launcher(unlimited, config, folder, client)
    player = AgentPlayer(unlimited, launcher, client, policy, chat, config.rollout, config.service, watch)
    await player.start()
    try:
        yield player
    finally:
        await player.close()


async def build(
    config: RunConfig,
    folder: Path,
    model: Path,
    client: AsyncSandboxClient,
    policy_of: Callable[[ChatTokenizer], Policy],
    close: Callable[[], Awaitable[None]] | None = None,
    *,
    workers: Sequence[EpisodeWorker] = (),
    go_on: bool = False,
) -> BatchProducer:
    """Return a started batch producer, which closes the client when it is closed, and calls ``close``.

    Args:
        config: the run.
        folder: where the journal and what people read go.
        model: a Hugging Face folder, for its tokenizer.
        client: of the service that episodes are played in.
        policy_of: what samples, given the run's tokenizer.
        close: lets go of the policy.
        workers: processes that play the episodes; without any they are played in this one.
        go_on: continue at once in place of a producer that died during the run.

    Raises:
        ConfigError: the model has no chat template or no context, a tracker's package is missing, or the
            agent cannot be run.
        DataError: there are no tasks.
        ServiceUnavailable: the service does not answer.
    """

    players: list[_Player] = []
    closed: list[Callable[[], Awaitable[None]]] = [client.aclose, *([close] if close is not None else [])]
    close_all = partial(_close_all, players, closed)
    async with AsyncExitStack() as unless_started:
        unless_started.push_async_callback(close_all)
        chat = ChatTokenizer(model, config.chat)
        watch = ProgressMonitor()
        own = partial(make_player, config, folder, client, policy_of(chat), chat, watch)
        player: _Player = WorkerPlayer(workers, watch) if workers else own()
        players.append(player)
        if isinstance(player, AgentPlayer):
            await player.start()
        parts = Dependencies(
            service=client,
            player=await _with_teacher(
                _rewarded(player, config.reward, folder, model, watch, closed), config, chat, watch, closed
            ),
            watch=watch,
            score=partial(_score, config.reward, context_limit(config.rollout, chat)),
            tracker=open_tracker(config.tracker_settings, folder),
            prepare=player.prepare_instance,
            recorded=_recorded(config, folder, client, chat, watch),
            close=close_all,
        )
        producer = BatchProducer(config.batch_settings, folder, parts)
        unless_started.push_async_callback(producer.close)
        await producer.start(go_on=go_on)
        unless_started.pop_all()
    return producer


def _rewarded(
    player: _Player,
    config: RewardConfig,
    folder: Path,
    model: Path,
    watch: ProgressMonitor,
    closed: list[Callable[[], Awaitable[None]]],
) -> AttemptPlayer:
    """Return a player whose episodes have outcomes of the run's reward function or judge, and scores of its
    reward models, if any.
    """
    rewarded: AttemptPlayer = player
    outcomes = open_outcomes(config, folder)
    if outcomes is not None:
        closed.append(outcomes.close)
        rewarded = rewarded_player(rewarded, OutcomeRewards(outcomes), watch)
    for learned in open_learned(config, folder, model):
        closed.append(learned.close)
        rewarded = rewarded_player(rewarded, learned, watch)
    return rewarded


_PROBE = "Compute 12 * 37, then call tool(x=[1, 2]).\n\tÄ line\u00a0of “text”: \u4f60\u597d 🙂 <b>&amp;</b>"
"""Words, digits, white space and other scripts, on which tokenizers differ."""


async def _with_teacher(
    player: AttemptPlayer,
    config: RunConfig,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
    closed: list[Callable[[], Awaitable[None]]],
) -> AttemptPlayer:
    """Return a player whose episodes have log-probabilities of the run's teacher on a server, if any.

    Raises ConfigError for a server that cannot be asked or has another tokenizer.
    """
    wanted = config.algorithm.server_teacher
    if wanted is None or not config.steps:
        return player
    teacher = TeacherServer(wanted)
    closed.append(teacher.close)
    try:
        await teacher.check_tokenizer(_PROBE, chat.encode(_PROBE))
    except TeacherFailed as error:
        raise ConfigError(f"algorithm.distillation.teacher: {error}") from error
    return player_with_teacher(player, teacher, watch, wanted.timeout_s, wanted.concurrency)


def _recorded(
    config: RunConfig, folder: Path, client: AsyncSandboxClient, chat: ChatTokenizer, watch: ProgressMonitor
) -> Mapping[int, StageData]:
    """Return the data of the run's warm start and of its stages on recorded data."""
    context = context_limit(config.rollout, chat)
    data = {
        place: StageData(
            f"the data of stage {stage.name}",
            partial(prepare_stage, stage, folder, config.seed, context, chat),
            stage.timeout_s,
        )
        for place, stage in config.offline_stages.items()
    }
    settings, agent = config.warm_start_settings, config.agent
    if settings is not None:
        played_by = None
        if agent is not None:
            played_by = partial(open_demonstrating_agent, config, agent, folder, client, chat, watch)
        prepare = partial(prepare_warm_start, settings, folder, client, chat, watch, played_by)
        data[0] = StageData("the warm start", prepare, settings.warm_start.timeout_s)
    return data


async def _close_all(players: Sequence[_Player], closed: Sequence[Callable[[], Awaitable[None]]]) -> None:
    for player in players:
        await player.close()
    for close in closed:
        await close()


def _score(config: RewardConfig, context_tokens: int, trajectory: Trajectory, horizon: int) -> Scored:
    return score(trajectory, config, horizon, context_tokens)
