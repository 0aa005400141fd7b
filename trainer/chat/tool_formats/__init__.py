"""Notations of tool calls: one file for each family of models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import cast

from sandbox_plugins import PluginGroup, missing_methods
from trainer.error_text import error_text
from trainer.plugins import plugin_object, rejected

from .base import ToolFormat
from .gemma4 import Gemma4Format
from .glm import GlmFormat
from .harmony import HarmonyFormat
from .hermes import HermesFormat
from .json_list import COHERE, GRANITE, NEMOTRON_V2, PHI4_MINI
from .lfm2 import Lfm2Format
from .llama3 import Llama3Format
from .minimax import MinimaxFormat
from .mistral import MistralFormat
from .plugin import PluginFormat
from .pythonic import PythonicFormat
from .qwen3_coder import Qwen3CoderFormat
from .sections import DEEPSEEK_V3, DEEPSEEK_V31, KIMI_K2
from .text import TextFormat

__all__ = ["TOOL_FORMATS", "TOOL_FORMAT_METHODS", "ToolFormat", "tool_format"]

TOOL_FORMATS: Mapping[str, ToolFormat] = MappingProxyType(
    {
        "text": TextFormat(),
        "hermes": HermesFormat(),
        "llama3": Llama3Format(),
        "mistral": MistralFormat(),
        "pythonic": PythonicFormat(),
        "cohere": COHERE,
        "deepseek_v3": DEEPSEEK_V3,
        "deepseek_v31": DEEPSEEK_V31,
        "gemma4": Gemma4Format(),
        "glm": GlmFormat(),
        "granite": GRANITE,
        "harmony": HarmonyFormat(),
        "kimi_k2": KIMI_K2,
        "lfm2": Lfm2Format(),
        "minimax": MinimaxFormat(),
        "nemotron_v2": NEMOTRON_V2,
        "phi4_mini": PHI4_MINI,
        "qwen3_coder": Qwen3CoderFormat(),
    }
)
"""Tool formats by the name in the configuration."""
TOOL_FORMAT_METHODS = ("parse", "render", "describe_tools")
"""Methods that the tool format of a plugin must have."""


@cache
def tool_format(name: str) -> ToolFormat:
    """Return the tool format that a configuration names: one of ours, or a plugin's. Raises ConfigError."""
    if name in TOOL_FORMATS:
        return TOOL_FORMATS[name]
    found = plugin_object(PluginGroup.TOOL_FORMATS, name)
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        cause = f"it cannot be made without arguments: {error_text(error)}"
        raise rejected(PluginGroup.TOOL_FORMATS, name, cause) from error
    if problem := missing_methods(made, TOOL_FORMAT_METHODS):
        raise rejected(PluginGroup.TOOL_FORMATS, name, f"{problem}, and so no ToolFormat")
    return PluginFormat(name, cast("ToolFormat", made))
