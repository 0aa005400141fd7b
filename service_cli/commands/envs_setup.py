"""``sandbox-service envs setup``: install packages and data of environments on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandbox_plugins import PluginGroup, find_plugin, is_reference
from sandbox_service.config.reading import read_config
from sandbox_service.environments.folder_pruning import prune_folders
from sandbox_service.environments.installation import install, note_operator_data
from sandbox_service.environments.plugins import plugin_recipe, plugin_recipes
from sandbox_service.environments.provisions import default_root, is_readable, recipes
from sandbox_service.errors import ServiceError

from .options import ConfigOption
from .terminal import WRONG, explained, fail, notes, notes_line, results

if TYPE_CHECKING:
    from sandbox_service.environments.provisions import Recipe


_ALL = "all"


def setup(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Environments, or: all. Default: list them."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, resolve_path=True, help="Data of your own for the environment."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Reinstall what is installed already.")] = False,
    old: Annotated[
        bool, typer.Option("--prune", help="Remove files of older versions that no running service uses.")
    ] = False,
    config: ConfigOption = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override: environments.packages_dir=/srv/environments"),
    ] = None,
) -> None:
    """Install the packages of environments, each in a folder of its own, and prepare their data.

    Services that start afterwards serve them. Run this on each node of a cluster, or share the folder. With
    --data an environment uses data that cannot be shipped; its page in docs/environments describes it.

    Examples:

        sandbox-service envs setup

        sandbox-service envs setup bfcl textcraft

        sandbox-service envs setup webshop --data /srv/webshop
    """
    with explained():
        environments = read_config(config, override or []).environments
        known = {**plugin_recipes(), **recipes(), **_referenced(names or ())}
    root = environments.packages_dir or default_root()
    if not names:
        _list(known.values(), root)
        return
    chosen = [name for name in known if not known[name].why_optional] if names == [_ALL] else names
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise fail(f"{unknown[0]!r} is unknown or needs no set-up; expected: {', '.join(known)}", WRONG)
    if data is not None and len(chosen) != 1:
        raise fail("--data needs exactly one environment", WRONG)
    failed = [name for name in chosen if not _set_up(known[name], root, data, force=force)]
    if old:
        _remove_old([known[name] for name in chosen], root)
    if failed:
        raise fail(f"not set up: {', '.join(failed)}")
    for recipe in known.values():
        if recipe.why_optional and recipe.name not in chosen:
            notes().print(
                f"skipped: {recipe.name}, since {recipe.why_optional}; name it to set it up", soft_wrap=True
            )


def _referenced(names: Iterable[str]) -> dict[str, Recipe]:
    """Return the recipes of environments that are named as ``module:name``."""
    found = {name: find_plugin(PluginGroup.ENVIRONMENTS, name) for name in names if is_reference(name)}
    made = {name: plugin_recipe(plugin) for name, plugin in found.items()}
    return {name: recipe for name, recipe in made.items() if recipe is not None}


def _set_up(recipe: Recipe, root: Path, data: Path | None, *, force: bool) -> bool:
    """Set up an environment; report a failure and return False, so that the others are still set up."""
    started = time.monotonic()
    there = recipe.folder(root).is_dir() and not force
    try:
        with notes().status(f"setting up {recipe.name} ..."):
            folder = install(recipe, root, notes_line, force=force)
            if data is not None:
                note_operator_data(recipe.name, root, data)
    except (ServiceError, OSError) as error:
        notes().print(f"{recipe.name}: {error}", markup=False)
        return False
    took = "already installed" if there else f"{time.monotonic() - started:.0f} s"
    results().print(f"{recipe.name}: {folder} ({took})", soft_wrap=True)
    return True


def _remove_old(chosen: Sequence[Recipe], root: Path) -> None:
    kept = [recipe.folder(root) for recipe in chosen]
    pruned = prune_folders(root, kept, names={recipe.name for recipe in chosen}, report=notes_line)
    for path in pruned.removed:
        notes().print(f"removed: {path}", soft_wrap=True)
    for path in pruned.in_use:
        notes().print(f"stays, since a running service uses it, or may: {path}", soft_wrap=True)


def _list(recipes_known: Iterable[Recipe], root: Path) -> None:
    for recipe in recipes_known:
        folder = recipe.folder(root)
        state = "set up" if folder.is_dir() else "not set up"
        if folder.is_dir() and not is_readable(folder):
            state = f"this user cannot read {folder}"
        results().print(f"{recipe.name}: {state}", soft_wrap=True)
    notes().print("set up with: sandbox-service envs setup NAME, or: all")
