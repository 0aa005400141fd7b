"""List the installed plugins, and why some of them cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .errors import PluginError
from .loading import load_plugin
from .plugins import Plugin, PluginGroup, installed_plugins, single_plugin


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """An installed plugin."""

    plugin: Plugin
    problem: str = ""
    """The reason why it cannot be used; empty if it can be imported."""


def plugin_statuses(own: Mapping[PluginGroup, Collection[str]]) -> list[PluginStatus]:
    """Import all plugins of some groups, in order of group and name.

    ``own`` has the groups, each with the names of the product itself.
    """
    return [
        PluginStatus(plugin, _problem(candidates, names))
        for group, names in own.items()
        for candidates in installed_plugins(group).values()
        for plugin in candidates
    ]


def _problem(candidates: Collection[Plugin], own: Collection[str]) -> str:
    try:
        load_plugin(single_plugin(candidates, own))
    except PluginError as error:
        return str(error)
    return ""
