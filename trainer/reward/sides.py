"""Credit of the two sides of an episode in which one policy plays both.

The counterpart's tokens are no actions of the agent, but a trajectory of their own, with its reward at the
last turn. An opponent's reward is minus the outcome of the agent, as in self-play on zero-sum games (Silver
et al. 2017, https://arxiv.org/abs/1712.01815; for language models, Liu et al. 2025, SPIRAL,
https://arxiv.org/abs/2506.24119). An episode that did not come to its end has no loser, and its opponent is
not trained. A partner's reward is that of the agent. The counterparts of a group have a baseline of their
own, as SPIRAL has one for each role.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.types import StopReason

from .compose import Scored

if TYPE_CHECKING:
    from trainer.types import Trajectory


def counterpart_side(trajectory: Trajectory, agent: Scored) -> Scored | None:
    """Return the counterpart's trajectory with its reward; None where it has none to learn from.

    Args:
        trajectory: both sides, as played.
        agent: the agent's side with its reward.
    """
    theirs = tuple(segment for segment in trajectory.segments if not segment.is_agents)
    turns = sum(len(segment.turns) for segment in theirs)
    if not turns or not trajectory.scored:
        return None
    name, reward = "partner", agent.trajectory.reward
    if any(segment.opponent for segment in theirs):
        if trajectory.stop is not StopReason.TERMINATED:
            return None
        name, reward = "opponent", -agent.trajectory.terms["outcome"]
    side = replace(
        agent.trajectory,
        id=f"{trajectory.id}/{name}",
        segments=theirs,
        reward=reward,
        terms={"outcome": reward},
    )
    return Scored(side, (*(0.0,) * (turns - 1), reward))
