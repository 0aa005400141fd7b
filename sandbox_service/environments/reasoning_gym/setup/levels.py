"""Levels of difficulty: the configurations that a dataset's curriculum has for its first steps.

``default`` is the configuration that the package uses without any settings. ``easy``, ``medium`` and ``hard``
are the first, the middle and the last step of the curriculum; where questions of a step take too long to make
or to read, the next lower one takes its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

DEFAULT = "default"
LEVELS = (DEFAULT, "easy", "medium", "hard")
_NOT_CONFIGURATION = ("seed", "size")


def candidates(name: str) -> dict[str, list[Json]]:
    """Return, by level, the configurations to try in turn."""
    from reasoning_gym.factory import CURRICULA, DATASETS

    found = {DEFAULT: [_plain(DATASETS[name][1]())]}
    if name not in CURRICULA:
        return found
    steps = list(_steps(name))
    last = len(steps) - 1
    found["easy"] = steps[:1]
    found["medium"] = steps[last // 2 : 0 : -1]
    found["hard"] = steps[last : last // 2 : -1]
    return found


def _steps(name: str) -> Iterator[Json]:
    """Yield the configuration of each step of a curriculum, all its attributes raised together."""
    from reasoning_gym.factory import CURRICULA

    longest = max((len(each.levels) for each in CURRICULA[name]().attributes.values()), default=0)
    for step in range(longest):
        curriculum = CURRICULA[name]()
        curriculum.set_global_level(step)
        yield _plain(curriculum.generate_configuration())


def _plain(config: object) -> Json:
    """Return, as JSON, what a configuration has other than the defaults, without seed and size."""
    defaults = type(config)()
    changed = {
        each.name: getattr(config, each.name)
        for each in dataclasses.fields(config)  # type: ignore[arg-type]
        if each.name not in _NOT_CONFIGURATION and getattr(config, each.name) != getattr(defaults, each.name)
    }
    plain: Json = json.loads(json.dumps(changed))
    return plain
