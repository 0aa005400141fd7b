"""The configuration from a TOML file and ``key=value`` words; whatever is in neither keeps its default."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError

from sandbox_service.config import ServiceConfig

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["ConfigError", "read_config"]

Tree: TypeAlias = dict[str, object]


class ConfigError(ValueError):
    """The file or a word is wrong; the sentence says where."""


def read_config(path: Path | None = None, words: Iterable[str] = ()) -> ServiceConfig:
    """The configuration of a service. Words win over the file. Raises ConfigError."""
    tree = {} if path is None else _read(path)
    for word in words:
        _apply(tree, word)
    try:
        return ServiceConfig.model_validate(tree)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"the configuration is wrong: {wrong}") from error


def _read(path: Path) -> Tree:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _apply(tree: Tree, word: str) -> None:
    key, equals, text = word.partition("=")
    names = key.split(".")
    if not equals or not all(names):
        raise ConfigError(f"{word!r} is not of the form key=value, such as server.port=9000")
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
