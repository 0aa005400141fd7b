"""Give episodes their rewards as they are played, before anything is journaled.

An outcome or the score of a trained model becomes a part of the trajectory, so that it is found once,
whatever is restarted afterwards. An episode without one has a failure in place of a score: it is not learnt
from. Held-out episodes are graded by the environment alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from trainer.errors import RewardFailed, TrainerError
from trainer.rollout.failures import note_of

if TYPE_CHECKING:
    from trainer.config.rollout import SamplingConfig
    from trainer.rollout.attempts import AttemptPlayer
    from trainer.rollout.progress import ProgressMonitor
    from trainer.types import GroupSpec, Trajectory

    from .source import OutcomeSource

MOST_IN_A_ROW = 32
"""Failures without a success in between after which the run ends: another episode would fail as well."""
_PHASE = "reward"


class EpisodeRewards(Protocol):
    """Adds what a reward is made of to a played and graded episode."""

    async def add_reward(self, trajectory: Trajectory) -> Trajectory:
        """Return the episode with it.

        Raises RewardFailed for this episode, and any other TrainerError to end the run.
        """
        ...


@dataclass(frozen=True, slots=True)
class OutcomeRewards:
    """Adds the outcome that a source finds."""

    source: OutcomeSource

    async def add_reward(self, trajectory: Trajectory) -> Trajectory:
        return replace(trajectory, outcome=await self.source.find_outcome(trajectory))


class RewardedPlayer:
    """Implements ``trainer.rollout.attempts.AttemptPlayer`` around another one."""

    def __init__(self, player: AttemptPlayer, rewards: EpisodeRewards, watch: ProgressMonitor) -> None:
        self._player = player
        self._rewards = rewards
        self._watch = watch
        self._failed_in_a_row = 0

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode, and add its reward. Raises TrainerError when no episode gets one."""
        trajectory = await self._player.play_episode(spec, member, sampling)
        held_out = spec.index < 0
        if held_out or not trajectory.scored:
            return trajectory
        self._watch.entered(trajectory.id, _PHASE)
        try:
            rewarded = await self._rewards.add_reward(trajectory)
        except RewardFailed as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= MOST_IN_A_ROW:
                raise TrainerError(
                    f"{self._failed_in_a_row} episodes in a row got no reward: {error}"
                ) from error
            return replace(trajectory, failure=note_of(error, _PHASE, trajectory.instance_id))
        self._failed_in_a_row = 0
        return rewarded
