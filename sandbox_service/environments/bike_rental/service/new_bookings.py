"""Requests for new bookings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sandbox_service.environments.bike_rental.box.rental_data import (
    DAY_RATES,
    EXTRAS,
    INSURANCES,
    SEAT_KINDS,
    SIZES,
    STATIONS,
    TODAY,
)

from .wish import Wish, best_bike, decline, settle

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

    from .wish import Draw, Facts


_ADULT_KINDS = ("electric", "cargo")
_BORN_BY = 2008
_LONGEST = 14


def book(draw: Draw) -> Wish | None:
    """Ask for a booking that is fine."""
    return _book(draw, None)


def book_declined(draw: Draw) -> Wish | None:
    """Ask for a booking that the policy forbids."""
    return _book(draw, draw.rng.choice(("unpaid_fees", "minimum_age", "child_seat", "rental_length")))


def _book(draw: Draw, rule: str | None) -> Wish | None:
    """Ask for a new booking that is fine, or that a rule forbids before all others."""
    rng = draw.rng
    kind = rng.choice(tuple(DAY_RATES))
    extras = sorted(rng.sample(("helmet", "lock", "panniers"), rng.randint(0, 2)))
    if rule == "child_seat" or (rule is None and kind in SEAT_KINDS and rng.random() < 0.3):
        extras = sorted({*extras, "child_seat"})
    wanted: JsonObject = {
        "start": (TODAY + timedelta(days=rng.randint(1, 40))).isoformat(),
        "days": rng.randint(15, 20) if rule == "rental_length" else rng.randint(1, 8),
        "extras": extras,
        "insurance": rng.choice(tuple(INSURANCES)),
    }
    if _forbidden(draw, kind, wanted) != rule:
        return None
    search: JsonObject = {"kind": kind, "station": rng.choice(STATIONS), "size": rng.choice(SIZES)}
    search |= {"start": wanted["start"], "days": wanted["days"]}
    wish = Wish("I would like to rent a bike.", (kind, wanted["start"]), _booking_facts(search, wanted))
    if rule is not None:
        return decline(draw, wish, rule)
    found = draw.run("find_bikes", search)["bikes"]
    if not found:
        return None
    arguments = {"customer_id": draw.customer["id"], "bike_id": best_bike(found), **wanted}
    wish = replace(wish, reads=(("find_bikes", search),))
    return settle(draw, wish, "create_booking", arguments, ("booking", "id"), ("amount", "price"))


def _forbidden(draw: Draw, kind: str, wanted: JsonObject) -> str | None:
    """Return the first rule that forbids a new booking."""
    if draw.customer["unpaid"]:
        return "unpaid_fees"
    if kind in _ADULT_KINDS and draw.customer["birth_year"] > _BORN_BY:
        return "minimum_age"
    if "child_seat" in wanted["extras"] and kind not in SEAT_KINDS:
        return "child_seat"
    return "rental_length" if wanted["days"] > _LONGEST else None


def _booking_facts(search: JsonObject, wanted: JsonObject) -> Facts:
    extras = ", ".join(each.replace("_", " ") for each in wanted["extras"])
    return (
        (f"I want a bike of the kind {search['kind']}.", ("kind", "type", "bike", "model")),
        (f"Size {search['size']}.", ("size", "tall", "height")),
        (f"I pick it up at the {search['station']}.", ("station", "where", "place", "pick up", "pick-up")),
        (f"It starts on {search['start']}.", ("when", "date", "dates", "start", "day")),
        (f"I need it for {search['days']} days.", ("how long", "how many days", "days", "duration")),
        (f"Extras: {extras}." if extras else "No extras.", ("extras", "accessories", *_spoken_extras())),
        (f"Insurance: {wanted['insurance']}.", ("insurance", "insured", "cover")),
    )


def _spoken_extras() -> tuple[str, ...]:
    return tuple(name.replace("_", " ") for name in EXTRAS)
