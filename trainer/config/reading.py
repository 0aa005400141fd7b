"""A configuration from a TOML file and ``key=value`` words; whatever is in neither keeps its default.

It reads any tree of pydantic models. Relative paths are relative to the working directory; a file that is to
be read is looked for beside the run's file as well. What is wrong is told by the keys that were written, with
the nearest right one.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from trainer.errors import ConfigError

from .base import FOLDER
from .run import RunConfig
from .settings import models_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

__all__ = ["read_run", "read_settings"]

_INSTALLED = Path(__file__).resolve().parents[2]
_SHIPPED = ("deploy", "runs")
"""The run files that come with the package have the same names with and without a checkout."""

Tree: TypeAlias = dict[str, object]
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
        raise ConfigError(f"the configuration is wrong: {_told(error.errors(), model, tree)}") from error


def _located(path: Path) -> Path:
    """The file itself, or the one of that name in ``deploy/runs`` as it was installed with the package."""
    if path.parts[: len(_SHIPPED)] == _SHIPPED and not path.exists() and (_INSTALLED / path).exists():
        return _INSTALLED / path
    return path


def _read(path: Path) -> Tree:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


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


def _told(errors: Sequence[ErrorDetails], model: type[BaseModel], tree: Tree) -> str:
    """One clause a key, in which alternatives of one value are joined."""
    by_key: dict[str, list[str]] = {}
    for error in errors:
        names = _written(error["loc"], tree)
        if error["type"] == "extra_forbidden":
            clause = f"there is no such setting{_nearest(model, tree, names)}"
        elif error["type"] == "value_error":
            clause = error["msg"].removeprefix("Value error, ")
        else:
            clause = error["msg"][:1].lower() + error["msg"][1:]
        clauses = by_key.setdefault(".".join(names), [])
        if clause not in clauses:
            clauses.append(clause)
    return "; ".join(": ".join(filter(None, (key, ", or ".join(told)))) for key, told in by_key.items())


def _written(location: tuple[int | str, ...], tree: Tree) -> tuple[str, ...]:
    """The key as it was written: without the names that pydantic gives to the branches of a union."""
    names: list[str] = []
    here: object = tree
    for place, part in enumerate(location):
        if isinstance(here, dict) and part in here:
            here = here[part]
            names.append(str(part))
        elif isinstance(here, dict) and place == len(location) - 1:
            names.append(str(part))
    return tuple(names)


def _nearest(model: type[BaseModel], tree: Tree, names: tuple[str, ...]) -> str:
    """What there is in place of a key that there is not."""
    candidates: tuple[type[BaseModel], ...] = (model,)
    here: object = tree
    for name in names[:-1]:
        here = here.get(name) if isinstance(here, dict) else None
        fields = [one.model_fields[name] for one in candidates if name in one.model_fields]
        candidates = tuple(below for field in fields for below in _chosen(field, here))
    known = sorted({field for candidate in candidates for field in candidate.model_fields})
    if not known:
        return ""
    close = difflib.get_close_matches(names[-1], known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"


def _chosen(field: FieldInfo, here: object) -> tuple[type[BaseModel], ...]:
    """The models that a branch may be, by its kind where it has one."""
    models = models_in(field.annotation)
    kind = here.get("kind", getattr(field.default, "kind", None)) if isinstance(here, dict) else None
    of_kind = tuple(
        model
        for model in models
        if "kind" in model.model_fields and model.model_fields["kind"].default == kind
    )
    return of_kind or models
