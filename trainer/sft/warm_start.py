"""The warm start from its configuration: read, spoil, play, keep what is worth imitating, cut into batches.

What was played is kept in the run's folder: a run that goes on, or whose worker begins again, imitates the
same tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from trainer.errors import CheckpointError, DataError
from trainer.rollout.attempts import Attempts
from trainer.rollout.backpressure import Slots
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.rows import samples_of
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import StopReason, Trajectory

from .batches import SFTBatches
from .demonstrations import read_demonstrations
from .playback import Demonstrator, play_demonstrations
from .spoil import spoil

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.chat import ChatTokenizer
    from trainer.config import RunConfig, WarmStartConfig
    from trainer.rollout.watch import Watch


PLAYED = "demonstrations.jsonl"
"""In the run's folder: the trajectories that are imitated."""

_TRAJECTORY: TypeAdapter[Trajectory] = TypeAdapter(Trajectory)


async def prepare_warm_start(
    run: RunConfig,
    folder: Path,
    client: AsyncSandboxClient,
    chat: ChatTokenizer,
    watch: Watch | None = None,
) -> SFTBatches:
    """Batches of the run's warm start; demonstrations are played unless ``folder`` has what was played.

    ``watch`` is told of every phase, so that whoever waits sees the progress. Raises DataError when there is
    nothing to imitate, ConfigError when the service finds a request wrong.
    """
    config = run.warm_start
    if config is None:
        raise DataError("the run has no warm start")
    kept = folder / PLAYED
    trajectories = read_played(kept)
    if trajectories is None:
        demonstrator = demonstrator_of(config, run.tasks.environment, run.seed)
        policy = ScriptedPolicy(demonstrator.says, chat)
        player = EpisodePlayer(client, policy, chat, run.rollout, run.service, watch)
        attempts = Attempts(player, run.rollout, Slots(config.concurrency), player.watch)
        try:
            trajectories = await play_demonstrations(demonstrator, attempts)
        finally:
            await player.close()
        write_played(kept, trajectories)
    return batches_of(trajectories, config, run.seed)


def demonstrator_of(config: WarmStartConfig, environment: str, seed: int) -> Demonstrator:
    """The demonstrations of a warm start, some of them spoilt if it says so. Raises DataError."""
    read = read_demonstrations(config.demonstrations, environment, config.limit)
    return Demonstrator(spoil(read, config.spoilt, seed), environment, seed)


def batches_of(trajectories: Sequence[Trajectory], config: WarmStartConfig, seed: int) -> SFTBatches:
    """Batches of the demonstrations that solved their task, or of all. Raises DataError without any."""
    kept = [each for each in trajectories if each.success or config.keep_failures]
    rows = [
        samples_of(trajectory, [0.0] * len(trajectory.turns), group) for group, trajectory in enumerate(kept)
    ]
    solved = sum(trajectory.success is True for trajectory in trajectories)
    facts = {
        "demonstrations/kept": float(len(kept)),
        "demonstrations/success": solved / len(trajectories) if trajectories else 0.0,
    }
    demonstrations = [each for each in rows if each]
    if not demonstrations:
        raise DataError(f"there is no demonstration to imitate: {_why_none(trajectories, solved)}")
    return SFTBatches(demonstrations, config.batch, seed, facts)


def _why_none(trajectories: Sequence[Trajectory], solved: int) -> str:
    if not trajectories:
        return "none could be played"
    stops = Counter(trajectory.stop for trajectory in trajectories)
    ended = ", ".join(f"{count} by {stop.value}" for stop, count in stops.most_common())
    reason = f"of {len(trajectories)} that were played, {solved} solved their task; they ended: {ended}"
    if StopReason.CONTEXT_FULL in stops:
        reason += (
            ". They do not fit into the model's context; raise model.context or shorten chat.system_prompt"
        )
    return reason


def write_played(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Keep what was played, a line each, whole or not at all."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(b"".join(_TRAJECTORY.dump_json(each) + b"\n" for each in trajectories))
    draft.replace(path)


def read_played(path: Path) -> tuple[Trajectory, ...] | None:
    """What was played before; None when nothing was. Raises CheckpointError for a file that does not fit."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return None
    try:
        return tuple(_TRAJECTORY.validate_json(line) for line in lines)
    except ValidationError as error:
        raise CheckpointError(f"{path} does not hold the trajectories of a warm start: {error}") from error
