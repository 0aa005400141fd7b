"""Settings of constraints on the cost of episodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sandbox_settings import Branch, NonNegative


class ConstraintConfig(Branch):
    """A limit on the mean cost of an episode, kept by a Lagrange multiplier (Ray et al. 2019)."""

    cost: str = Field(pattern=r"^(turns|tokens|failed_actions|malformed_turns|(call|env)\.[\w.-]+)$")
    """``turns``, ``tokens`` (sampled), ``failed_actions``, ``malformed_turns``, ``call.TOOL`` (calls of a
    tool), or ``env.TERM`` (a shaped term of the environment).
    """
    limit: NonNegative
    """Greatest mean cost of an episode."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.05
    """Change of the multiplier in a step for each unit of cost beyond the limit."""
    initial: NonNegative = 0.0
    """Multiplier at the first step."""
    most: NonNegative = 100.0
    """Upper bound of the multiplier."""

    @model_validator(mode="after")
    def _begins_within_its_bound(self) -> ConstraintConfig:
        if self.initial > self.most:
            raise ValueError(
                f"initial={self.initial:g} is above most={self.most:g}, the upper bound of the multiplier"
            )
        return self
