"""Ways of writing tool calls, one file a family of models."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from .base import ToolFormat
from .hermes import HermesFormat
from .llama3 import Llama3Format
from .mistral import MistralFormat
from .pythonic import PythonicFormat
from .text import TextFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TOOL_FORMATS", "ToolFormat"]

TOOL_FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {
        "hermes": HermesFormat(),
        "llama3": Llama3Format(),
        "mistral": MistralFormat(),
        "pythonic": PythonicFormat(),
        "text": TextFormat(),
    }
)
"""By the configuration's word for it."""
