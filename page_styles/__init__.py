"""The stylesheet that the service's console and the trainer's reports share.

It has the colours, light and dark, and the parts of both: tiles, tables, figures, facts, messages and tool
calls. Each page adds its own layout to it. Standard library only.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["shared_styles"]


@cache
def shared_styles() -> str:
    """Return the stylesheet, as CSS."""
    return resources.files(__package__).joinpath("shared.css").read_text(encoding="utf-8")
