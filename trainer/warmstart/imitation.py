"""The warm start from its configuration: read, spoil, play, keep what is worth imitating, cut into batches.

What was played is kept in a file, since a run that is started again must imitate the same tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from trainer.errors import CheckpointError
from trainer.rollout.rows import samples_of
from trainer.types import Trajectory

from .batches import ImitationBatches
from .demonstrations import read_demonstrations
from .play import Demonstrator
from .spoil import spoil

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trainer.config import WarmStartConfig

__all__ = ["demonstrator_of", "imitation_of", "read_played", "write_played"]

_PLAYED: TypeAdapter[Trajectory] = TypeAdapter(Trajectory)


def demonstrator_of(config: WarmStartConfig, environment: str, seed: int) -> Demonstrator:
    """The demonstrations of a warm start, some of them spoilt if it says so. Raises DataError."""
    read = read_demonstrations(config.demonstrations, environment, config.limit)
    return Demonstrator(spoil(read, config.spoilt, seed), environment, seed)


def imitation_of(trajectories: Sequence[Trajectory], config: WarmStartConfig, seed: int) -> ImitationBatches:
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
    return ImitationBatches([each for each in rows if each], config.batch, seed, facts)


def write_played(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Keep what was played, a line each, whole or not at all."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(b"".join(_PLAYED.dump_json(each) + b"\n" for each in trajectories))
    draft.replace(path)


def read_played(path: Path) -> tuple[Trajectory, ...] | None:
    """What was played before; None when nothing was. Raises CheckpointError for a file that does not fit."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return None
    try:
        return tuple(_PLAYED.validate_json(line) for line in lines)
    except ValidationError as error:
        raise CheckpointError(f"{path} does not hold the trajectories of a warm start: {error}") from error
