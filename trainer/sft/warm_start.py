"""Prepare the warm start: play a run's demonstrations, select those to train on, and cut them into batches.

The played episodes are kept in the run's folder, so that a resumed run or a restarted worker trains on the
same tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from sandbox_settings import first_mistake
from trainer.durable_files import write_durably
from trainer.errors import CheckpointError, DataError
from trainer.rollout.attempts import Attempts
from trainer.rollout.backpressure import Slots
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.progress import ProgressMonitor
from trainer.rollout.samples import samples_of
from trainer.rollout.scripted import ScriptedPolicy
from trainer.tasks.create_params import create_params
from trainer.types import StopReason, Trajectory

from .demonstrations import PLAYED, read_demonstrations
from .playback import Demonstrator, play_demonstrations
from .row_batches import RowBatches

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.chat import ChatTokenizer
    from trainer.config import WarmStartConfig, WarmStartSettings
    from trainer.engines.generation import Policy
    from trainer.rollout.attempts import AttemptPlayer


_TRAJECTORY: TypeAdapter[Trajectory] = TypeAdapter(Trajectory)


async def prepare_warm_start(
    settings: WarmStartSettings,
    folder: Path,
    client: AsyncSandboxClient,
    chat: ChatTokenizer,
    watch: ProgressMonitor | None = None,
    played_by: Callable[[Policy], AbstractAsyncContextManager[AttemptPlayer]] | None = None,
) -> RowBatches:
    """Return the batches of a run's warm start; demonstrations are played unless ``folder`` has played ones.

    ``watch`` sees each phase of the episodes. ``played_by`` opens what plays them with a policy; by default
    that is the trainer's own loop. Raises DataError when there is nothing to train on, ConfigError when the
    service rejects a request.
    """
    config = settings.warm_start
    kept = folder / PLAYED
    trajectories = read_played(kept)
    if trajectories is None:
        first, *others = settings.tasks.environments
        read = read_demonstrations(config.demonstrations, first, config.limit, others=others)
        sources = {environment: settings.tasks.source_of(environment) for environment in (first, *others)}
        params = {
            source: create_params(settings.rollout, settings.tasks, source, config.params)
            for source in sources.values()
        }
        demonstrator = Demonstrator(read, first, settings.seed, sources, params)
        policy = ScriptedPolicy(demonstrator.message, chat)
        watch = watch or ProgressMonitor()
        opened = played_by or partial(_own_loop, settings, client, chat, watch)
        async with opened(policy) as player:
            attempts = Attempts(player, settings.rollout, Slots(config.concurrency), watch)
            trajectories = await play_demonstrations(demonstrator, attempts)
        write_played(kept, trajectories)
    return batches_of(trajectories, config, settings.seed)


@asynccontextmanager
async def _own_loop(
    settings: WarmStartSettings,
    client: AsyncSandboxClient,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
    policy: Policy,
) -> AsyncIterator[AttemptPlayer]:
    player = EpisodePlayer(client, policy, chat, settings.rollout, settings.service, watch)
    try:
        yield player
    finally:
        await player.close()


def batches_of(trajectories: Sequence[Trajectory], config: WarmStartConfig, seed: int) -> RowBatches:
    """Return batches of the demonstrations that solved their task, or of all if so configured.

    Raises DataError without any.
    """
    # Not the moves of a counterpart: an opponent lost where the agent solved its task.
    kept = [each.without_counterpart() for each in trajectories if each.success or config.keep_failures]
    rows = [
        samples_of(trajectory, [0.0] * len(trajectory.turns), group) for group, trajectory in enumerate(kept)
    ]
    solved = sum(trajectory.success is True for trajectory in trajectories)
    metrics = {
        "demonstrations/kept": float(len(kept)),
        "demonstrations/success": solved / len(trajectories) if trajectories else 0.0,
    }
    demonstrations = [each for each in rows if each]
    if not demonstrations:
        raise DataError(f"there is no demonstration to train on: {_why_none(trajectories, solved)}")
    return RowBatches(demonstrations, config.batch, seed, metrics)


def _why_none(trajectories: Sequence[Trajectory], solved: int) -> str:
    if not trajectories:
        return "none could be played"
    stops = Counter(trajectory.stop for trajectory in trajectories)
    ended = ", ".join(f"{count} by {stop.value}" for stop, count in stops.most_common())
    reason = f"{solved} of {len(trajectories)} played ones solved their task; they ended: {ended}"
    if StopReason.CONTEXT_FULL in stops:
        reason += (
            ". They do not fit into the model's context; raise model.context or shorten chat.system_prompt"
        )
    return reason


def write_played(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Write the played demonstrations, one per line, atomically."""
    write_durably(path, b"".join(_TRAJECTORY.dump_json(each) + b"\n" for each in trajectories))


def read_played(path: Path) -> tuple[Trajectory, ...] | None:
    """Return the played demonstrations of a file; None if it does not exist.

    Raises CheckpointError for an invalid file.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return None
    try:
        return tuple(_TRAJECTORY.validate_json(line) for line in lines)
    except ValidationError as error:
        why = first_mistake(error)
        raise CheckpointError(f"{path} does not hold the trajectories of a warm start: {why}") from error
