"""List the installed plugins, and why some of them cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from .errors import PluginError
from .loading import load_plugin
from .plugins import Plugin, PluginGroup, installed_plugins, single_plugin


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """An installed plugin."""

    plugin: Plugin
    problem: str = ""
    """The reason why it cannot be used; empty if it can be used."""


def plugin_statuses(
    own: Mapping[PluginGroup, Collection[str]], check: Callable[[Plugin, object], None]
) -> list[PluginStatus]:
    """Import and check all plugins of some groups, in order of group and name.

    ``own`` has the groups, each with the names of the product itself. ``check`` is given each plugin with its
    object, and raises PluginError for one that is not what its group needs.
    """
    return [
        PluginStatus(plugin, _problem(candidates, names, check))
        for group, names in own.items()
        for candidates in installed_plugins(group).values()
        for plugin in candidates
    ]


def _problem(
    candidates: Collection[Plugin], own: Collection[str], check: Callable[[Plugin, object], None]
) -> str:
    try:
        plugin = single_plugin(candidates, own)
        check(plugin, load_plugin(plugin))
    except PluginError as error:
        return str(error)
    return ""
