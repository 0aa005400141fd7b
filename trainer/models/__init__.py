"""Models: small ones made on the spot, others found by name or folder."""

from .folders import model_folder
from .tiny import make_tiny

__all__ = ["make_tiny", "model_folder"]
