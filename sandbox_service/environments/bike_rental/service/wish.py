"""A customer's request, and what settles or declines it on a desk.

The functions that draw requests look for one that fits a customer of a database. They settle it on the desk,
so that a second request finds the database as the first one left it, and return None if the customer has no
such request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from sandbox_service.environments.bike_rental.box.desk import Desk, euros
from sandbox_service.environments.bike_rental.box.tools import run_tool

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

Facts = tuple[tuple[str, tuple[str, ...]], ...]

_BOOKING_WORDS = ("booking", "bookings", "rental", "reservation")


@dataclass(frozen=True, slots=True)
class Wish:
    """One request, and how it is settled."""

    say: str
    """The request, as the customer makes it."""
    values: tuple[str, ...] = ()
    """A question for consent names these."""
    facts: Facts = ()
    """Details that the customer tells when asked, each with the words of such a question."""
    told: tuple[tuple[str, str], ...] = ()
    """Facts that the customer has to be told: kind and value."""
    reads: tuple[tuple[str, JsonObject], ...] = ()
    """Look-ups that an agent needs before."""
    calls: tuple[tuple[str, JsonObject], ...] = ()
    """The writes that settle or decline it."""


@dataclass(slots=True)
class Draw:
    """A customer at a desk, and chance."""

    desk: Desk
    customer: JsonObject
    rng: Random
    used: set[str] = field(default_factory=set)
    """Bookings that an earlier request of the same customer is about."""

    def bookings(self, status: str) -> list[JsonObject]:
        """Return the customer's bookings of a status in random order, without those that were used."""
        found = [
            booking
            for booking in self.desk.database["bookings"].values()
            if (booking["customer"], booking["status"]) == (self.customer["id"], status)
            and booking["id"] not in self.used
        ]
        self.rng.shuffle(found)
        return found

    def run(self, name: str, arguments: JsonObject) -> JsonObject:
        """Run a tool."""
        return run_tool(self.desk, name, arguments)

    def bike(self, booking: JsonObject) -> JsonObject:
        """Return the bike of a booking."""
        bike: JsonObject = self.desk.database["bikes"][booking["bike"]]
        return bike


def about(booking: JsonObject) -> Facts:
    """Return the detail that names a booking."""
    return ((f"It is booking {booking['id']}.", _BOOKING_WORDS),)


def settle(draw: Draw, wish: Wish, name: str, arguments: JsonObject, *told: tuple[str, str]) -> Wish:
    """Settle a request with one call; ``told`` are kinds of facts with their keys in its result."""
    result = draw.run(name, arguments)
    draw.used.add(str(arguments.get("booking_id")))
    facts = tuple((kind, str(result[key])) for kind, key in told)
    return replace(wish, calls=((name, arguments),), told=facts)


def decline(draw: Draw, wish: Wish, rule: str) -> Wish:
    """Decline a request by a rule; an unpaid amount is to be told."""
    arguments = {"customer_id": draw.customer["id"], "rule": rule}
    draw.run("record_refusal", arguments)
    told = (("amount", euros(draw.customer["unpaid"])),) if rule == "unpaid_fees" else ()
    return replace(wish, calls=(("record_refusal", arguments),), told=told)


def best_bike(bikes: list[JsonObject]) -> str:
    """Return the bike that the policy takes: the lowest day rate, then the lowest number."""
    chosen = min(bikes, key=lambda bike: (float(bike["day_rate"]), int(bike["id"].removeprefix("K-"))))
    return str(chosen["id"])
