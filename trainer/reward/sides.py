"""Credit of the two sides of a zero-sum episode in which one policy plays both.

The opponent's tokens are a trajectory of their own, with minus the outcome of the agent as reward, as in
self-play on zero-sum games (Silver et al. 2017, https://arxiv.org/abs/1712.01815; for language models, Liu et
al. 2025, SPIRAL, https://arxiv.org/abs/2506.24119). The opponents of a group have a baseline of their own, as
SPIRAL has one for each role. An episode that did not come to its end has no loser, and its opponent is not
trained.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.types import StopReason

from .compose import Scored

if TYPE_CHECKING:
    from trainer.types import Trajectory


def opponent_side(trajectory: Trajectory, agent: Scored) -> Scored | None:
    """Return the opponent's trajectory with its reward; None where it has none to learn from.

    Args:
        trajectory: both sides, as played.
        agent: the agent's side with its reward.
    """
    theirs = tuple(segment for segment in trajectory.segments if segment.opponent)
    turns = sum(len(segment.turns) for segment in theirs)
    if not turns or not trajectory.scored or trajectory.stop is not StopReason.TERMINATED:
        return None
    reward = -agent.trajectory.terms["outcome"]
    side = replace(
        agent.trajectory,
        id=f"{trajectory.id}/opponent",
        segments=theirs,
        reward=reward,
        terms={"outcome": reward},
    )
    return Scored(side, (*(0.0,) * (turns - 1), reward))
