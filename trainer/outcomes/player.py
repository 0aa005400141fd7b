"""Give episodes their rewards as they are played, before anything is journaled.

An outcome or the score of a trained model becomes a part of the trajectory. Held-out episodes are graded by
the environment alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from trainer.errors import RewardFailed
from trainer.rollout.completion import CompletedPlayer

if TYPE_CHECKING:
    from trainer.rollout.attempts import AttemptPlayer
    from trainer.rollout.progress import ProgressMonitor
    from trainer.types import Trajectory

    from .source import OutcomeSource


class EpisodeRewards(Protocol):
    """Adds what a reward is made of to a played and graded episode."""

    async def add_reward(self, trajectory: Trajectory) -> Trajectory:
        """Return the episode with it.

        Raises RewardFailed for this episode, and any other TrainerError to end the run.
        """
        ...

    async def close(self) -> None:
        """Close connections and files."""
        ...


@dataclass(frozen=True, slots=True)
class OutcomeRewards:
    """Adds the outcome that a source finds."""

    source: OutcomeSource

    async def add_reward(self, trajectory: Trajectory) -> Trajectory:
        return replace(trajectory, outcome=await self.source.find_outcome(trajectory))

    async def close(self) -> None:
        await self.source.close()


def rewarded_player(
    player: AttemptPlayer, rewards: EpisodeRewards, watch: ProgressMonitor
) -> CompletedPlayer:
    """Return a player whose episodes have these rewards."""
    ended = "{count} episodes in a row got no reward"
    return CompletedPlayer(player, rewards.add_reward, RewardFailed, "reward", watch, ended)
