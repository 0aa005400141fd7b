"""The one error of reading settings."""

from __future__ import annotations


class SettingsError(ValueError):
    """A settings file or a ``key=value`` override is wrong; the message names the key and what to write."""
