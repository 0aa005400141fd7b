"""Whole episodes through HTTP: create, every step, evaluate, release; what fails is counted, never hidden."""

from __future__ import annotations

import itertools
import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .instances import create_body, evaluate_body, instance_body, message_body
from .load import LoadError, RefusedError, drive

if TYPE_CHECKING:
    from .load import Lane, Load, Target
    from .scripts import Script, Scripts


CREATE = "/v1/create_instance"
STEP = "/v1/step"
EVALUATE = "/v1/evaluate"
RELEASE = "/v1/release_instance"

# The light client does not parse what it does not need: an answer's JSON may be long.
_INSTANCE = re.compile(rb'"instance_id":"([^"]+)"')
_OVER = (b'"terminated":true', b'"truncated":true')


@dataclass(slots=True)
class Tally:
    """How many episodes ended how."""

    solved: int = 0
    unsolved: list[str] = field(default_factory=list)
    """Tasks whose reference was graded below 1."""
    failures: list[str] = field(default_factory=list)
    """What kept episodes from being graded."""

    @property
    def episodes(self) -> int:
        """All that were begun."""
        return self.solved + len(self.unsolved) + len(self.failures)

    @property
    def problem(self) -> str | None:
        """The first thing that went wrong."""
        if self.failures:
            return self.failures[0]
        return f"{self.unsolved[0]} is not solved by its reference" if self.unsolved else None


async def play_many(
    target: Target, scripts: Scripts, lanes: int, most: int, most_s: float
) -> tuple[Load, Tally]:
    """Play on so many connections until the number or the time is reached; each plays one at least."""
    tally = Tally()
    waiting = itertools.islice(itertools.cycle(scripts.each), max(most, lanes))
    until = time.monotonic() + most_s

    async def lane(lane: Lane) -> None:
        for script in waiting:
            await _tallied(lane, scripts.environment, script, tally)
            if time.monotonic() >= until:
                return

    return await drive(target, [lane] * lanes), tally


async def _tallied(lane: Lane, environment: str, script: Script, tally: Tally) -> None:
    try:
        score = await play(lane, environment, script)
    except RefusedError as error:
        tally.failures.append(f"{script.task_id}: {error}")
        return
    if score == 1.0:
        tally.solved += 1
    else:
        tally.unsolved.append(script.task_id)


async def play(lane: Lane, environment: str, script: Script) -> float:
    """One episode; its score. Raises LoadError."""
    instance_id = await open_episode(lane, environment, script)
    try:
        for index, message in enumerate(script.messages):
            answer = await lane.post(STEP, message_body(instance_id, index, message))
            if any(mark in answer for mark in _OVER):
                break
        verdict = json.loads(await lane.post(EVALUATE, evaluate_body(instance_id)))
    except LoadError:
        with suppress(LoadError):
            await lane.post(RELEASE, instance_body(instance_id))
        raise
    await lane.post(RELEASE, instance_body(instance_id))
    return float(verdict["score"])


async def open_episode(lane: Lane, environment: str, script: Script) -> str:
    """Create an instance; its id. Raises LoadError."""
    answer = await lane.post(CREATE, create_body(environment, script.task_id))
    found = _INSTANCE.search(answer)
    if found is None:
        raise LoadError(f"no instance id in {answer[:100]!r}")
    return found[1].decode()
