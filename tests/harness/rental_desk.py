"""Conversations at the bike rental's desk, in the test's own process."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox_service.config import BikeRentalConfig
from sandbox_service.environments.bike_rental.box.world import BikeRentalWorld
from sandbox_service.environments.bike_rental.service.catalog import BikeRentalCatalog
from sandbox_service.runner.world import Context, Outcome, Start, Verdict

Json = dict[str, Any]


def say(text: str, name: str | None = None) -> Json:
    """A message of text, of the agent, or of the counterpart with a name."""
    return {"role": "assistant", "content": text} | ({"name": name} if name else {})


def call(name: str, **arguments: Any) -> Json:
    """A message with one native call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


@dataclass
class Conversation:
    """One conversation of a task with a kind of user."""

    task_id: str
    user: str = "scripted"
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.catalog = BikeRentalCatalog(BikeRentalConfig(user=self.user))
        self.payload = self.catalog.payload(self.task_id)
        self.world = BikeRentalWorld(self.payload.task, Context("conversation", 0))
        self.opening: Start = self.world.start()

    @property
    def reference(self) -> list[Json]:
        return [dict(message) for message in self.catalog.reference(self.task_id)]

    @property
    def customer(self) -> Json:
        """The arguments that verify the customer."""
        called = next(each for each in self.reference if "verify_customer" in json.dumps(each))
        arguments: Json = json.loads(called["tool_calls"][0]["function"]["arguments"])
        return arguments

    def send(self, message: Json) -> str:
        """Send a message; the text of the answer."""
        self.outcomes.append(self.world.step(message, 1.0))
        return str(self.outcomes[-1].messages[-1]["content"])

    def play(self, messages: Iterable[Json]) -> Verdict:
        """Send messages until the episode ends; the verdict."""
        for message in messages:
            self.send(message)
            if self.outcomes[-1].terminated:
                break
        return self.verdict()

    def verdict(self) -> Verdict:
        return self.world.evaluate({}, self.payload.grading)


def first_task(category: str, split: str = "train") -> str:
    """The first task of a category."""
    return f"{split}_{category}_00"
