"""An environment on one kind of sandbox behind the real gateway: what every check is given and plays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import httpx
    from pydantic import JsonValue

    from sandbox_client import AsyncEpisode, AsyncSandboxClient
    from sandbox_contract.episodes import StepResult
    from sandbox_contract.inspection import Environment
    from sandbox_service.environments.base import Catalog

    from .serving import Service

Json = dict[str, Any]

SEED = 7
_LOOKED_AT = 24
"""Tasks among which the one that most checks play is chosen."""
_LONG_ENOUGH = 12
"""Messages of a reference that is long enough to be cut in two, and short enough to be played often."""


@dataclass(eq=False)
class Subject:
    """One environment, served."""

    name: str
    kind: str
    """Of the sandboxes: process, docker or gvisor."""
    catalog: Catalog
    """The service's side, for references and ground truth; everything else is asked over HTTP."""
    described: Environment
    """The descriptor, as the service gives it."""
    service: Service

    @property
    def client(self) -> AsyncSandboxClient:
        """Our client."""
        return self.service.client

    @property
    def http(self) -> httpx.AsyncClient:
        """Bare HTTP, for what our client would not send."""
        return self.service.http

    @cached_property
    def task(self) -> str:
        """The task that most checks play: of those looked at, the one with the longest handy reference."""

        def fitness(task_id: str) -> tuple[int, int]:
            length = len(self.reference(task_id))
            return (1, length) if 2 <= length <= _LONG_ENOUGH else (0, -abs(length - _LONG_ENOUGH))

        return max(self.sample(self.described.default_split, _LOOKED_AT), key=fitness)

    def sample(self, split: str, count: int) -> list[str]:
        """So many tasks of a split that have a reference, spread over the whole of it."""
        ids = self.catalog.task_ids(split)
        spread = [ids[position * len(ids) // count] for position in range(count)] if ids else []
        return [task_id for task_id in dict.fromkeys(spread) if self.catalog.reference(task_id)]

    def reference(self, task_id: str | None = None) -> list[Json]:
        """Assistant messages that solve a task."""
        return [dict(message) for message in self.catalog.reference(task_id or self.task)]

    def halves(self) -> tuple[list[Json], list[Json]]:
        """The reference of the chosen task, cut in two; the first part of a single message, which ends the
        episode, is empty.
        """
        messages = self.reference()
        cut = len(messages) // 2
        return messages[:cut], messages[cut:]

    def episode(self, task_id: str | None = None, *, seed: int | None = SEED) -> AsyncEpisode:
        """An episode of the chosen task, as a context manager."""
        return self.client.episode(self.name, task_id or self.task, seed=seed)

    async def tools(self) -> list[Json]:
        """The tools that the chosen task offers."""
        async with self.episode() as episode:
            return [tool.model_dump(mode="json") for tool in episode.tools]

    async def play(self, episode: AsyncEpisode, messages: Iterable[Json]) -> list[StepResult]:
        """Step through messages, as far as the episode goes."""
        results: list[StepResult] = []
        for message in messages:
            if episode.finished:
                break
            results.append(await episode.step(message))
        return results

    async def solve(self, task_id: str | None = None) -> float:
        """The score of a reference, played in an episode of its own."""
        async with self.episode(task_id) as episode:
            await self.play(episode, self.reference(task_id))
            verdict = await episode.evaluate()
            assert verdict.success == (verdict.score >= 1.0), verdict
            return verdict.score

    async def post(self, path: str, body: Json, key: str | None = None) -> httpx.Response:
        """A bare POST."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.http.post(path, json=body, headers=headers)

    async def created(self, **fields: JsonValue) -> Json:
        """The answer to a bare create of the chosen task."""
        body = {"environment": self.name, "task_id": self.task, "seed": SEED, **fields}
        answer = await self.post("/v1/create_instance", body)
        assert answer.status_code == 200, answer.text
        created: Json = answer.json()
        return created


def transcript(results: Sequence[StepResult]) -> list[Json]:
    """Return the observations and rewards of the agent."""
    told = {"observation", "reward", "terminated", "truncated"}
    return [result.model_dump(mode="json", include=told) for result in results]


def leaves(value: object) -> Iterable[str]:
    """Every string in a JSON value, keys aside; JSON in strings is looked into."""
    if isinstance(value, str):
        yield value
        if value[:1] in "{[":
            try:
                inner = json.loads(value)
            except ValueError:
                return
            yield from leaves(inner)
    elif isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
