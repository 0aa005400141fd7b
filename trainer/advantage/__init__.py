"""From rewards to advantages: arithmetic on numpy arrays, one algorithm a file."""

from __future__ import annotations

from .credit import credit

__all__ = ["credit"]
