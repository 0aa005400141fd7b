"""Notations of tool calls: one file for each family of models."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
from .pythonic import PythonicFormat
from .qwen3_coder import Qwen3CoderFormat
from .sections import DEEPSEEK_V3, DEEPSEEK_V31, KIMI_K2
from .text import TextFormat

__all__ = ["TOOL_FORMATS", "ToolFormat"]

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
