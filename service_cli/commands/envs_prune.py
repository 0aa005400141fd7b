"""``sandbox-service envs prune``: remove prepared folders that no environment uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sandbox_plugins import PluginGroup, find_plugin, installed_plugins, is_reference
from sandbox_service.config.reading import read_config
from sandbox_service.environments.folder_pruning import prune_folders
from sandbox_service.environments.plugins import plugin_recipe, plugin_recipes
from sandbox_service.environments.provisions import default_root, recipes

from .options import ConfigOption, DryRunOption
from .terminal import explained, notes, notes_line, results

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_service.config import EnvironmentsConfig
    from sandbox_service.environments.provisions import Recipe

_MIB = 1024 * 1024


def prune(
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", help='Override: environments.enabled=["code"]'),
    ] = None,
) -> None:
    """Remove packages and data of environments that are not served, and of former versions.

    Environments are served if the configuration enables them; without environments.enabled all are. What a
    running service on this machine uses stays.

    Without environments.packages_dir run it as the user of the service: the folders are in that user's cache.

    Examples:

        sandbox-service envs prune --dry-run

        sandbox-service envs prune --config service.toml
    """
    with explained():
        environments = read_config(config, override or []).environments
        root = environments.packages_dir or default_root()
        names, kept = _served(environments, root)
        done = prune_folders(root, kept, spared_names=names, dry_run=dry_run, report=notes_line)
    for folder in done.in_use:
        notes().print(f"stays, since a running service uses it, or may: {folder}", soft_wrap=True)
    for folder in done.removed:
        results().print(f"{'would remove' if dry_run else 'removed'}: {folder}", soft_wrap=True)
    results().print(f"{len(done.removed)} folders, {done.size / _MIB:.1f} MiB")


def _served(environments: EnvironmentsConfig, root: Path) -> tuple[set[str], list[Path]]:
    """Return names of which nothing may go, and the folders of the recipes that are served."""
    found: dict[str, Recipe] = {**plugin_recipes(), **recipes()}
    # The recipe of a broken package is unknown, so its folders may be the ones that it needs.
    unknown = set(installed_plugins(PluginGroup.ENVIRONMENTS)) - set(found)
    if environments.enabled is not None:
        found = {name: recipe for name, recipe in found.items() if name in environments.enabled}
        for reference in filter(is_reference, environments.enabled):
            recipe = plugin_recipe(find_plugin(PluginGroup.ENVIRONMENTS, reference))
            if recipe is not None:
                found[recipe.name] = recipe
    return unknown, [recipe.folder(root) for recipe in found.values()]
