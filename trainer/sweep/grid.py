"""The grid of a sweep: settings with several values, and a trial for each combination."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from trainer.errors import ConfigError

_MOST_NAME = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """One setting and its values, as they are written."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """One combination of values."""

    name: str
    """Name of its run and folder."""
    values: dict[str, str]
    """By setting."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """The values as overrides of the run file."""
        return tuple(f"{key}={value}" for key, value in self.values.items())


def parse_axes(words: Sequence[str]) -> tuple[tuple[SweepAxis, ...], tuple[str, ...]]:
    """Return the settings with several values, separated by commas, and the other overrides.

    A comma within brackets, braces or quotes belongs to a value. Raises ConfigError without any such
    setting, and for one that is given twice or has an empty value.
    """
    axes: list[SweepAxis] = []
    constants: list[str] = []
    for word in words:
        key, _, written = word.partition("=")
        values = tuple(value.strip() for value in split_values(written))
        if len(values) < 2:
            constants.append(word)
            continue
        if "" in values or len(set(values)) < len(values):
            raise ConfigError(f"{word!r} has an empty or a repeated value; write {key}=A,B")
        if key in (axis.key for axis in axes):
            raise ConfigError(f"{key} is swept twice; list all its values at once, as in {key}=A,B,C")
        axes.append(SweepAxis(key, values))
    if not axes:
        raise ConfigError("nothing to sweep; give a setting several values, as in rollout.group_size=4,8")
    return tuple(axes), tuple(constants)


def split_values(text: str) -> tuple[str, ...]:
    """Split at the commas that are not within brackets, braces or quotes."""
    values, depth, quote, begin = [], 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and not depth:
            values.append(text[begin:place])
            begin = place + 1
    return (*values, text[begin:])


def make_trials(axes: Sequence[SweepAxis]) -> tuple[SweepTrial, ...]:
    """Return a trial for each combination, the last setting varying fastest.

    A trial is named after its values, or by its number if that would be too long or not unique.
    """
    combinations = [
        dict(zip((axis.key for axis in axes), values, strict=True))
        for values in product(*(axis.values for axis in axes))
    ]
    names = [_name(values) for values in combinations]
    unique = len(set(names)) == len(names) and all(len(name) <= _MOST_NAME for name in names)
    return tuple(
        SweepTrial(names[number] if unique else f"trial-{number:03}", values)
        for number, values in enumerate(combinations)
    )


def _name(values: dict[str, str]) -> str:
    parts = (f"{key.rpartition('.')[2]}-{value}" for key, value in values.items())
    return _UNSAFE.sub("_", ".".join(parts)).strip("_.-")
