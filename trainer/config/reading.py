"""A configuration from a TOML file and ``key=value`` words; whatever is in neither keeps its default.

A file may begin with others beside it: ``extends = "base.toml"``, or a list of them. A later file wins over
an earlier one, and the file itself over all; a group of another ``kind`` replaces the earlier one. Relative
paths are relative to the working directory; a file that is to be read is looked for beside the run's file as
well. What is wrong is told by the keys that were written, with the nearest right one.
"""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from trainer.errors import ConfigError

from .base import FOLDER
from .mistakes import Tree, mistakes
from .run import RunConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read_run", "read_settings"]

_INSTALLED = Path(__file__).resolve().parents[2]
_EXTENDS = "extends"
_SHIPPED = ("deploy", "runs")
"""The run files that come with the package have the same names with and without a checkout."""

Model = TypeVar("Model", bound=BaseModel)


def read_run(path: Path | None = None, words: Iterable[str] = ()) -> RunConfig:
    """The configuration of a run. Words win over the file. Raises ConfigError."""
    return read_settings(RunConfig, path, words, example="rollout.groups=8")


def read_settings(
    model: type[Model], path: Path | None = None, words: Iterable[str] = (), *, example: str
) -> Model:
    """Settings of any kind; words win over the file. Raises ConfigError.

    ``example`` is a word that is right, for the sentence about one that is not.
    """
    source = None if path is None else _located(path)
    tree = {} if source is None else _read(source)
    for word in words:
        _apply(tree, word, example)
    try:
        return model.model_validate(tree, context=None if source is None else {FOLDER: source.parent})
    except ValidationError as error:
        raise ConfigError(f"the configuration is wrong: {mistakes(error.errors(), model, tree)}") from error


def _located(path: Path) -> Path:
    """The file itself, or the one of that name in ``deploy/runs`` as it was installed with the package."""
    if path.parts[: len(_SHIPPED)] == _SHIPPED and not path.exists() and (_INSTALLED / path).exists():
        return _INSTALLED / path
    return path


def _read(path: Path, above: tuple[Path, ...] = ()) -> Tree:
    """The tree of a file with those that it extends below it; ``above`` are the files that extend it."""
    if path.resolve() in above:
        raise ConfigError(f"{path} extends itself, by way of {', '.join(file.name for file in above)}")
    try:
        own: Tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    tree: Tree = {}
    for name in _extended(own.pop(_EXTENDS, []), path):
        _merge(tree, _read(path.parent / name, (*above, path.resolve())))
    _merge(tree, own)
    return tree


def _extended(value: object, path: Path) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}: extends takes the name of a file beside it, or a list of names")
    return names


def _merge(tree: Tree, over: Tree) -> None:
    """Put one tree over another, group by group."""
    for name, value in over.items():
        below = tree.get(name)
        if (
            isinstance(below, dict)
            and isinstance(value, dict)
            and value.get("kind", below.get("kind")) == below.get("kind")
        ):
            _merge(below, value)
        else:
            tree[name] = copy.deepcopy(value)


def _apply(tree: Tree, word: str, example: str) -> None:
    key, equals, text = word.partition("=")
    names = key.split(".")
    if not equals or not all(names):
        raise ConfigError(f"{word!r} is not of the form key=value, such as {example}")
    branch: Tree = tree
    for name in names[:-1]:
        below = branch.setdefault(name, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{word!r}: {name} is a value, not a group of settings")
        branch = below
    branch[names[-1]] = _value(text)


def _value(text: str) -> object:
    """A TOML value, or the text itself: ``9000``, ``true``, ``["a"]``, ``docker``."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
