"""Plugins: parts of the service and the trainer that other packages bring.

A package offers a part under a name, by an entry point of one of the groups in ``PluginGroup``; a
configuration may also name an object that is not installed as ``module:name``. This package finds and imports
them and knows nothing of what they are: whoever uses a group checks what it was given.

    find_plugin        the plugin that a setting names
    installed_plugins  the plugins of a group, by name
    load_plugin        import one
    plugin_statuses    import and check all of some groups, and say which cannot be used
    call_options       check a function's options before a run depends on them
    missing_methods    names that an object lacks to be of a protocol

Standard library only: the service and the trainer both build on it.
"""

from __future__ import annotations

from .checks import call_options, missing_methods
from .errors import PluginError
from .listing import PluginStatus, plugin_statuses
from .loading import API_VERSION, load_plugin, make_importable, remember_folder
from .plugins import Plugin, PluginGroup, find_plugin, installed_plugins, is_reference, single_plugin

__all__ = [
    "API_VERSION",
    "Plugin",
    "PluginError",
    "PluginGroup",
    "PluginStatus",
    "call_options",
    "find_plugin",
    "installed_plugins",
    "is_reference",
    "load_plugin",
    "make_importable",
    "missing_methods",
    "plugin_statuses",
    "remember_folder",
    "single_plugin",
]
