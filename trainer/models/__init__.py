"""Provide a run's model: create tiny ones, and find or download others."""

from .folders import model_folder
from .tiny import make_tiny

__all__ = ["make_tiny", "model_folder"]
