"""Load the plugins that a run's configuration names.

Each is checked when the run begins (``launch.plugin_check``) and loaded again in every process that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from sandbox_plugins import PluginError, PluginGroup, call_options, find_plugin, load_plugin
from trainer.errors import ConfigError, PluginRejected

if TYPE_CHECKING:
    from pydantic import JsonValue


@cache
def plugin_object(group: PluginGroup, name: str) -> object:
    """Return the object that a setting names. Raises ConfigError."""
    try:
        return load_plugin(find_plugin(group, name))
    except PluginError as error:
        raise ConfigError(str(error)) from error


def plugin_function(group: PluginGroup, name: str, options: Mapping[str, JsonValue]) -> Callable[..., object]:
    """Return a function of one positional argument and these options. Raises ConfigError."""
    function = plugin_object(group, name)
    if problem := call_options(function, 1, options):
        raise rejected(group, name, problem)
    assert callable(function)
    return function


def rejected(group: PluginGroup, name: str, cause: str) -> PluginRejected:
    """Return the error to raise for a plugin that is not what its group needs."""
    return PluginRejected(str(find_plugin(group, name).error(cause)))
