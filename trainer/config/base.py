"""What every branch of a run's configuration is: frozen, closed, and documented under its fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Branch", "Count", "NonNegative", "Positive", "Seconds", "Share"]

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Branch(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
