"""Write settings as TOML, defaults included, which ``read_settings`` reads back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias

from pydantic import BaseModel

from .shown_settings import without_secrets

Shown: TypeAlias = Callable[[str, object], object]
"""Takes the full name of a setting and its value as JSON, and returns the value to write."""


def to_toml(config: BaseModel) -> str:
    """Return the whole tree as TOML. Reading it gives the same configuration.

    TOML has no null: a setting that is None by default is left out, and one that was set to None is written
    as ``"none"``, which a branch reads as None where None is meant. Nulls inside free tables are left out.
    """
    return _document(config, lambda _, value: value)


def shown_toml(config: BaseModel) -> str:
    """Return the same for a page: what may be a secret is hidden."""
    return _document(config, without_secrets)


def _document(config: BaseModel, shown: Shown) -> str:
    return "\n".join(_table(config, (), shown)).strip() + "\n"


def _table(config: BaseModel, path: tuple[str, ...], shown: Shown) -> Iterator[str]:
    plain = config.model_dump(mode="json")
    below: dict[str, BaseModel] = {}
    lines: list[str] = []
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            below[name] = value
        elif value is not None:
            lines.append(f"{_key(name)} = {_text(shown('.'.join((*path, name)), plain[name]))}")
        elif field.default is not None:
            lines.append(f'{_key(name)} = "none"')
    if path and (lines or not below):
        yield f"[{'.'.join(map(_key, path))}]"
    yield from lines
    yield ""
    for name, branch in below.items():
        yield from _table(branch, (*path, name), shown)


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else json.dumps(name)


def _text(value: object) -> str:
    if isinstance(value, dict):
        items = (f"{_key(key)} = {_text(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value if item is not None) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)
