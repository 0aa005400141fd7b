"""A text game in memory: a corridor, its catalog, and a fleet that plays and records it.

The world is a real ``GameWorld``; only the boxes are missing. A corridor of length n is left by going north
n times; the score is the share of the way that is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pydantic import JsonValue

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import EnvironmentSpec
from sandbox_service.environments.registry import Registry
from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.environments.shared.service.game_catalog import GameCatalog, GameFacts, GameTask
from sandbox_service.errors import ServiceError
from sandbox_service.runner.world import Context
from sandbox_service.wire.frames import Op
from tests.fakes.backend import Call, EchoBackend, Episode

ACTIONS = ("go north", "look")
SHOP_ACTIONS = ("search[<words>]", "click[Buy Now]", "click[< Prev]")


class CorridorWorld(GameWorld):
    """Go north until there is no more north."""

    def system_prompt(self) -> str:
        return "You are in a corridor. Say: go north, or: look."

    def open_game(self) -> GameTurn:
        self.done = 0
        length = self.task["length"]
        goal = f"Instruction: [SEP] Leave the corridor of {length}. [SEP] You see a corridor."
        info = {"task_description": f"Leave the corridor of {length}.", "possible_objects": ["door"]}
        return GameTurn(goal, actions=self._actions(), info=info)

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        if action not in ("go north", "click[Buy Now]"):
            return GameTurn("Nothing happens.", score=self._score(), actions=self._actions())
        self.done += 1
        over = self.done >= self.task["length"]
        text = "You are out." if over else f"You went north {self.done} times."
        return GameTurn(text, float(over), self._score(), over, over, self._actions(), {"goals": "north"})

    def _actions(self) -> tuple[str, ...]:
        return SHOP_ACTIONS if self.task["shop"] else ACTIONS

    def _score(self) -> float:
        return self.done / float(self.task["length"])


WORLD = CorridorWorld


def game_catalog(name: str) -> GameCatalog:
    """Three corridors; one of them is in the default split, all are in ``all``."""
    spec = EnvironmentSpec(
        name=name,
        world_module="tests.fakes.games",
        agent_code=False,
        many_per_worker=True,
        fork=True,
        deterministic=True,
        image="sandbox-none",
    )
    facts = GameFacts("A corridor.", "go north, look.", "train", 5)

    def tasks() -> Iterable[GameTask]:
        for length, splits in ((1, ("train", "all")), (2, ("all",)), (3, ("all",))):
            task: dict[str, JsonValue] = {"length": length, "shop": name == "webshop"}
            move = "click[Buy Now]" if name == "webshop" else "go north"
            kind = "short" if length < 3 else "long"
            yield GameTask(
                id=f"corridor-{length}", category=kind, splits=splits, task=task, reference=(move,) * length
            )

    return GameCatalog(spec, facts, tasks)


def game_registry(*names: str) -> Registry:
    """The corridor under each name."""
    return Registry({name: game_catalog(name) for name in names})


class GameBackend(EchoBackend):
    """The in-memory fleet with corridors for worlds, and a record of every instance."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry
        self.records: dict[str, list[dict[str, object]]] = {}
        self.seeds: dict[str, int | None] = {}

    def _create(self, call: Call) -> bytes:
        request = json.loads(call.body)
        catalog = self.registry.catalog(request["environment"])
        payload = catalog.payload(request["task_id"])
        self._serial += 1
        name = call.instance_id or f"s1.{self._serial:032x}"
        if name in self.episodes:
            raise ServiceError(ErrorCode.DUPLICATE_INSTANCE)
        world = CorridorWorld(payload.task, Context(name, 0, request.get("params", {})))
        start = world.start()
        self.episodes[name] = Episode(request["environment"], request["task_id"], call.tenant, world)  # type: ignore[arg-type]
        self.seeds[name] = request.get("seed")
        head = {"instance_id": name, "environment": request["environment"], "task_id": request["task_id"]}
        body = {"observation": {"messages": start.messages}, "tools": start.tools, "info": start.info}
        return self._recorded(name, "create", {**head, **body})

    def _step(self, call: Call) -> bytes:
        episode = self._live(call)
        if episode.terminated:
            raise ServiceError(ErrorCode.INSTANCE_FINISHED)
        outcome = episode.world.step(json.loads(call.body)["message"], 1.0)
        episode.steps += 1
        truncated = not outcome.terminated and episode.steps >= 5
        episode.terminated = outcome.terminated or truncated
        result = {
            "instance_id": call.instance_id,
            "step_index": episode.steps - 1,
            "observation": {"messages": outcome.messages},
            "reward": outcome.reward,
            "terminated": outcome.terminated,
            "truncated": truncated,
            "info": outcome.info,
        }
        return self._recorded(call.instance_id, "step", result)

    def _release(self, call: Call) -> bytes:
        body = super()._release(call)
        self._recorded(call.instance_id, "release", json.loads(body))
        return body

    def _trajectory(self, call: Call) -> bytes:
        episode = self.episodes.get(call.instance_id)
        if episode is None or episode.tenant != call.tenant:
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE)
        if call.meta.get("current"):
            self._live(call)
        head = {"instance_id": call.instance_id, "environment": episode.environment, "tenant": call.tenant}
        body = {**head, "task_id": episode.task_id, "events": self.records[call.instance_id]}
        return json.dumps(body).encode()

    def _recorded(self, name: str, operation: str, result: dict[str, object]) -> bytes:
        events = self.records.setdefault(name, [])
        events.append({"sequence": len(events), "operation": operation, "at": 0.0, "result": result})
        return json.dumps(result).encode()

    def live(self) -> list[str]:
        """Instances that have not been released."""
        return [name for name, episode in self.episodes.items() if not episode.released]

    def asked_everyone(self) -> int:
        """Times that the whole fleet was asked for instances."""
        return sum(call.op is Op.INSTANCES and not call.instance_id for call in self.calls)
