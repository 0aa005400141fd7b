"""Play whole episodes through HTTP: create, all steps, evaluate, release; failures are counted."""

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
    from .load import Load, LoadConnection, Target
    from .scripts import Script, Scripts


CREATE = "/v1/create_instance"
STEP = "/v1/step"
EVALUATE = "/v1/evaluate"
RELEASE = "/v1/release_instance"

# Only the needed values are extracted, since parsing long responses would slow the load generator.
_INSTANCE = re.compile(rb'"instance_id":"([^"]+)"')
_OVER = (b'"terminated":true', b'"truncated":true')


@dataclass(slots=True)
class EpisodeCounts:
    """Counts of solved, unsolved and failed episodes."""

    solved: int = 0
    unsolved: list[str] = field(default_factory=list)
    """Tasks whose reference was graded below 1."""
    failures: list[str] = field(default_factory=list)
    """Errors of episodes that were not graded."""

    @property
    def episodes(self) -> int:
        """All episodes."""
        return self.graded + len(self.failures)

    @property
    def graded(self) -> int:
        """Episodes that were played to their end, solved or not."""
        return self.solved + len(self.unsolved)

    @property
    def problem(self) -> str | None:
        """The first failure, or unsolved task."""
        if self.failures:
            return self.failures[0]
        return f"{self.unsolved[0]} is not solved by its reference" if self.unsolved else None


async def play_many(
    target: Target, scripts: Scripts, connections: int, most: int, most_s: float
) -> tuple[Load, EpisodeCounts]:
    """Play on several connections up to a number or a time; each plays at least one episode."""
    tally = EpisodeCounts()
    waiting = itertools.islice(itertools.cycle(scripts.each), max(most, connections))
    until = time.monotonic() + most_s

    async def work(connection: LoadConnection) -> None:
        for script in waiting:
            await _tallied(connection, scripts.environment, script, tally)
            if time.monotonic() >= until:
                return

    return await drive(target, [work] * connections), tally


async def _tallied(
    connection: LoadConnection, environment: str, script: Script, tally: EpisodeCounts
) -> None:
    try:
        score = await play(connection, environment, script)
    except RefusedError as error:
        tally.failures.append(f"{script.task_id}: {error}")
        return
    if score == 1.0:
        tally.solved += 1
    else:
        tally.unsolved.append(script.task_id)


async def play(connection: LoadConnection, environment: str, script: Script) -> float:
    """Play an episode and return its score. Raises LoadError."""
    instance_id = await open_episode(connection, environment, script)
    try:
        for index, message in enumerate(script.messages):
            answer = await connection.post(STEP, message_body(instance_id, index, message))
            if any(mark in answer for mark in _OVER):
                break
        verdict = json.loads(await connection.post(EVALUATE, evaluate_body(instance_id)))
    except LoadError:
        with suppress(LoadError):
            await connection.post(RELEASE, instance_body(instance_id))
        raise
    await connection.post(RELEASE, instance_body(instance_id))
    return float(verdict["score"])


async def open_episode(connection: LoadConnection, environment: str, script: Script) -> str:
    """Create an instance and return its id. Raises LoadError."""
    answer = await connection.post(CREATE, create_body(environment, script.task_id))
    found = _INSTANCE.search(answer)
    if found is None:
        raise LoadError(f"no instance id in {answer[:100]!r}")
    return found[1].decode()
