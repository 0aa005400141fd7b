"""What an episode is worth: outcome, step rewards and named shaping terms, composed and capped."""

from __future__ import annotations

from .compose import Scored, score

__all__ = ["Scored", "score"]
