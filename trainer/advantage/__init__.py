"""Compute advantages from rewards: arithmetic on numpy arrays, one algorithm per file."""

from __future__ import annotations

from .credit import credit

__all__ = ["credit"]
