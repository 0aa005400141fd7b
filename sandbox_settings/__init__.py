"""Typed settings: a TOML file and ``key=value`` overrides become a frozen tree of pydantic models.

    Branch            the base of every group of settings
    read_settings     validate a file and overrides; raises SettingsError
    settings_of       list every setting with its type, default and meaning
    to_toml           write a tree that read_settings reads back

Pydantic and the standard library only: the service and the trainer both build on it.
"""

from __future__ import annotations

from .branch import Branch, Count, InputFile, NonNegative, Positive, Seconds, Share
from .catalogue import Setting, settings_of
from .errors import SettingsError
from .reading import read_settings
from .writing import to_toml

__all__ = [
    "Branch",
    "Count",
    "InputFile",
    "NonNegative",
    "Positive",
    "Seconds",
    "Setting",
    "SettingsError",
    "Share",
    "read_settings",
    "settings_of",
    "to_toml",
]
