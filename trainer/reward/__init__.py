"""Compose and cap an episode's reward from outcome, step rewards and named shaping terms."""

from __future__ import annotations

from .compose import Scored, score

__all__ = ["Scored", "score"]
