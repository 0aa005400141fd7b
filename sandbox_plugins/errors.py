"""The one error of plugins."""

from __future__ import annotations


class PluginError(ValueError):
    """A plugin cannot be used; the message names the package, the entry point and the cause."""
