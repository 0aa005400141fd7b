"""Generate the tasks of a split: a customer, one or two requests, and the calls that settle them.

The same split always has the same tasks. Each split has a database of its own, so that no customer, bike or
booking of the training tasks is in the held-out ones.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_service.environments.bike_rental.box.desk import Desk
from sandbox_service.environments.bike_rental.box.rental_data import make_database

from .wish import Draw
from .wishes import WISHES

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

    from .wish import Wish


TWO_REQUESTS = "two_requests"
TASKS = MappingProxyType({"train": 10, "validation": 3, "test": 4})
"""Tasks of each category in a split; there are twice as many with two requests."""
_SEED = 20260511
_FIRST = ("cancel", "incident", "membership", "options", "voucher", "membership_declined")
_SECOND = ("book", "book_declined", "change_dates", "cancel", "transfer", "change_bike_declined", "incident")
_MOST_TRIES = 4000


@dataclass(frozen=True, slots=True)
class RentalTask:
    """One task."""

    id: str
    category: str
    database: str
    customer: JsonObject
    wishes: tuple[Wish, ...]

    @property
    def difficulty(self) -> str:
        """Return ``hard`` for two requests, ``medium`` for one to be declined, and else ``easy``."""
        if len(self.wishes) > 1:
            return "hard"
        return "medium" if self.category.endswith("_declined") else "easy"

    def script(self) -> JsonObject:
        """Return the customer's script."""
        email, postcode = self.customer["email"], self.customer["postcode"]
        facts = [
            {"say": f"My name is {self.customer['name']}.", "about": ["name"]},
            {"say": f"My e-mail address is {email}.", "about": ["e-mail", "email", "mail"]},
            {"say": f"My postcode is {postcode}.", "about": ["postcode", "postal code", "zip"]},
        ]
        return {"opening": "Hello.", "facts": facts, "wishes": [_scripted(wish) for wish in self.wishes]}

    def ticket(self) -> str:
        """Return everything that the customer would tell, as one text."""
        about = " ".join(fact["say"] for fact in self.script()["facts"])
        requests = [" ".join([wish.say, *(say for say, _ in wish.facts)]) for wish in self.wishes]
        numbered = [f"Request {number}: {text}" for number, text in enumerate(requests, start=1)]
        return "\n".join([f"Ticket of a customer. {about}", *numbered])

    def grading(self) -> JsonObject:
        """Return the expected calls, and the facts to be told."""
        calls = [[name, arguments] for wish in self.wishes for name, arguments in wish.calls]
        facts = [{"kind": kind, "value": value} for wish in self.wishes for kind, value in wish.told]
        return {"calls": calls, "facts": facts}


def _scripted(wish: Wish) -> JsonObject:
    facts = [{"say": say, "about": list(about)} for say, about in wish.facts]
    return {"say": wish.say, "values": list(wish.values), "facts": facts}


@functools.cache
def generate_tasks(split: str) -> tuple[RentalTask, ...]:
    """Return the tasks of a split. Raises RuntimeError if its database has too few customers for them."""
    tasks: list[RentalTask] = []
    for category in (*WISHES, TWO_REQUESTS):
        count = TASKS[split] * (2 if category == TWO_REQUESTS else 1)
        found = _distinct_tasks(split, category)
        for number in range(count):
            customer, wishes = next(found)
            tasks.append(RentalTask(f"{split}_{category}_{number:02d}", category, split, customer, wishes))
    return tuple(tasks)


def _distinct_tasks(split: str, category: str) -> Iterator[tuple[JsonObject, tuple[Wish, ...]]]:
    rng = Random(f"{_SEED}:{split}:{category}")
    seen: set[str] = set()
    customers = list(make_database(split)["customers"].values())
    for _ in range(_MOST_TRIES):
        customer = rng.choice(customers)
        desk = Desk(make_database(split))
        draw = Draw(desk, desk.database["customers"][customer["id"]], rng)
        wishes = _draw_wishes(draw, category)
        if wishes is None:
            continue
        key = json.dumps([customer["id"], [wish.calls for wish in wishes], [wish.facts for wish in wishes]])
        if key not in seen:
            seen.add(key)
            yield customer, wishes
    raise RuntimeError(f"{split} has only {len(seen)} different tasks of the category {category}")


def _draw_wishes(draw: Draw, category: str) -> tuple[Wish, ...] | None:
    if category != TWO_REQUESTS:
        wish = WISHES[category](draw)
        return None if wish is None else (wish,)
    first = WISHES[draw.rng.choice(_FIRST)](draw)
    second = WISHES[draw.rng.choice(_SECOND)](draw) if first is not None else None
    return None if first is None or second is None else (first, second)
