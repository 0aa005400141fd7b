"""``sandbox-trainer plugins``: list what other packages bring to the trainer."""

from __future__ import annotations

from dataclasses import asdict
from typing import get_args

from rich.table import Table

from sandbox_plugins import Plugin, PluginGroup, missing_methods, plugin_statuses
from trainer.chat.tool_formats import TOOL_FORMAT_METHODS
from trainer.config.algorithm import ADVANTAGES, LOSSES
from trainer.config.model import ToolFormatName
from trainer.config.reward import REWARDS

from .options import JsonOption
from .terminal import notes, results, write_json


def plugins(as_json: JsonOption = False) -> None:
    """List the rewards, advantages, losses, tool formats and trackers of installed packages, and why some of
    them cannot be used.

    Examples:

        sandbox-trainer plugins
    """
    found = plugin_statuses(
        {
            PluginGroup.REWARDS: REWARDS,
            PluginGroup.ADVANTAGES: ADVANTAGES,
            PluginGroup.LOSSES: LOSSES,
            PluginGroup.TOOL_FORMATS: get_args(ToolFormatName),
            PluginGroup.TRACKERS: (),
        },
        _check,
    )
    if as_json:
        write_json([{**asdict(each.plugin), "problem": each.problem} for each in found])
        return
    if not found:
        notes().print("no installed package brings a part of the trainer")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("kind", "name", "package", "where", "state"):
        table.add_column(heading, overflow="fold")
    for each in found:
        plugin = each.plugin
        table.add_row(plugin.group.label, plugin.name, plugin.package, plugin.reference, each.problem or "ok")
    results().print(table)


def _check(plugin: Plugin, value: object) -> None:
    """Raise PluginError for an object that is not what its group needs.

    A run checks its plugins with their options; here, where there are none, only the kind is checked.
    """
    if plugin.group is PluginGroup.TOOL_FORMATS:
        problem = missing_methods(value, TOOL_FORMAT_METHODS)
    else:
        problem = None if callable(value) else f"it is of the type {type(value).__name__}, not a function"
    if problem:
        raise plugin.error(problem)
