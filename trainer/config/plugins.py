"""Settings that name a plugin: by its entry point, or as ``module:name``."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sandbox_plugins import PluginGroup, find_plugin

REFERENCE = "module:function"
"""Stands for all plugins where kinds are listed."""
PLUGIN = "plugin"
"""The tag of the settings of a plugin among those of built-in kinds."""


def installed(group: PluginGroup, own: Collection[str]) -> Callable[[str], str]:
    """Return a validator of names: those in ``own``, installed plugins, and references."""

    def known(name: str) -> str:
        if name not in own:
            find_plugin(group, name, own)
        return name

    return known


def kind_or_plugin(own: Collection[str]) -> Callable[[object], str | None]:
    """Return the function that finds the kind of settings; any kind that is not in ``own`` is a plugin."""

    def tag(given: object) -> str | None:
        kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
        if not isinstance(kind, str):
            return None
        return kind if kind in own else PLUGIN

    return tag
