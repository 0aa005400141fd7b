"""The rental's data: customers, bikes and bookings, generated from a seed, and prices.

Service and box generate the same data from the same name, so that no data travels with a task. Amounts are
in cents, dates are ISO texts, and the day of every episode is ``TODAY``.
"""

from __future__ import annotations

import functools
import json
import random
from datetime import date, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

TODAY = date(2026, 5, 11)
STATIONS = ("harbour", "market", "station", "park")
DAY_RATES = MappingProxyType({"city": 1400, "electric": 2800, "cargo": 3600, "road": 2400, "kids": 800})
"""Cents a day by kind of bike; newer models cost a little more."""
SEAT_KINDS = ("city", "cargo")
"""Kinds of bikes that child seats fit on."""
SIZES = ("S", "M", "L")
EXTRAS = MappingProxyType({"child_seat": 300, "helmet": 150, "lock": 100, "panniers": 200})
"""Cents a day."""
INSURANCES = MappingProxyType({"none": 0, "basic": 250, "full": 500})
"""Cents a day, from the least to the most cover."""
MEMBERSHIPS = MappingProxyType({"none": 0, "silver": 10, "gold": 20})
"""Percent off the bike, from the lowest to the highest."""
MEMBERSHIP_FEES = MappingProxyType({"none": 0, "silver": 2500, "gold": 6000})
"""Cents a year."""
FIRST_BOOKING = 2001
_SEEDS = MappingProxyType({"train": 41, "validation": 42, "test": 43})
_CUSTOMERS = 90
_GIVEN = (
    "Ada",
    "Boris",
    "Carla",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Mina",
)
_FAMILY = ("Abel", "Brandt", "Costa", "Duarte", "Eriksen", "Fontana", "Garcia", "Holm", "Ivanov", "Keller")
_SURCHARGES = (0, 0, 200, 400)
_STARTS = (0, 1, 2, 3, 4, 6, 9, 13, 18, 25, 33)
"""Days from today on which bookings to come begin: most of them near the limits of the policy."""


@functools.cache
def _content(name: str) -> str:
    rng = random.Random(_SEEDS[name])
    bikes = _make_bikes(rng)
    customers = _make_customers(rng)
    bookings = _make_bookings(rng, bikes, customers)
    tables = {"bikes": bikes, "customers": customers, "bookings": bookings}
    return json.dumps({**tables, "incidents": [], "refusals": [], "transfers": []})


def make_database(name: str) -> JsonObject:
    """Return a fresh database of ``train``, ``validation`` or ``test``. Raises KeyError for another name."""
    database: JsonObject = json.loads(_content(name))
    return database


def price_of(bike: JsonObject, booking: JsonObject, membership: str) -> dict[str, int]:
    """Return the price of a booking in cents: its parts, and ``total``."""
    days = booking["days"]
    parts = {
        "bike": bike["day_rate"] * days * (100 - MEMBERSHIPS[membership]) // 100,
        "extras": sum(EXTRAS[name] for name in booking["extras"]) * days,
        "insurance": INSURANCES[booking["insurance"]] * days,
    }
    return {**parts, "total": sum(parts.values())}


def is_free(database: JsonObject, bike_id: str, start: date, days: int, but: str | None = None) -> bool:
    """Return whether a bike has no booking on these days, the booking ``but`` aside."""
    end = start + timedelta(days=days)
    for booking in database["bookings"].values():
        if booking["bike"] != bike_id or booking["id"] == but:
            continue
        if booking["status"] not in ("booked", "picked_up"):
            continue
        begins = date.fromisoformat(booking["start"])
        if begins < end and start < begins + timedelta(days=booking["days"]):
            return False
    return True


def notice_days(booking: JsonObject) -> int:
    """Return the days from today to the start of a booking."""
    return (date.fromisoformat(booking["start"]) - TODAY).days


def _make_bikes(rng: random.Random) -> JsonObject:
    bikes: JsonObject = {}
    for kind, rate in DAY_RATES.items():
        for station in STATIONS:
            for size in rng.sample(SIZES, 3) + rng.sample(SIZES, 1):
                bike_id = f"K-{101 + len(bikes)}"
                bikes[bike_id] = {
                    "id": bike_id,
                    "kind": kind,
                    "size": size,
                    "station": station,
                    "day_rate": rate + rng.choice(_SURCHARGES),
                    "in_service": rng.random() > 0.08,
                }
    return bikes


def _make_customers(rng: random.Random) -> JsonObject:
    names = [(given, family) for given in _GIVEN for family in _FAMILY]
    customers: JsonObject = {}
    for given, family in rng.sample(names, _CUSTOMERS):
        customer_id = f"C-{1001 + len(customers)}"
        customers[customer_id] = {
            "id": customer_id,
            "name": f"{given} {family}",
            "email": f"{given}.{family}{rng.randint(100, 999)}@example.org".lower(),
            "postcode": str(rng.randint(10_000, 99_999)),
            "birth_year": rng.choice((2009, 2010)) if rng.random() < 0.15 else rng.randint(1950, 2006),
            "membership": rng.choice(("none", "none", "silver", "gold")),
            "unpaid": rng.choice((1500, 2250, 4000)) if rng.random() < 0.15 else 0,
        }
    return customers


def _make_bookings(rng: random.Random, bikes: JsonObject, customers: JsonObject) -> JsonObject:
    bookings: JsonObject = {}
    database = {"bookings": bookings}
    ridden = [bike for bike in bikes.values() if bike["in_service"]]
    for customer in customers.values():
        for _ in range(rng.randint(2, 5)):
            start, days, status = _span(rng)
            bike = rng.choice(ridden)
            if not is_free(database, bike["id"], start, days):
                continue
            booking_id = f"B-{FIRST_BOOKING + len(bookings)}"
            booking = {
                "id": booking_id,
                "customer": customer["id"],
                "bike": bike["id"],
                "start": start.isoformat(),
                "days": days,
                "extras": sorted(rng.sample(("helmet", "lock", "panniers"), rng.randint(0, 2))),
                "insurance": rng.choice(tuple(INSURANCES)),
                "status": status,
                "date_changes": int(status == "booked" and rng.random() < 0.3),
                "refunded": 0,
                "voucher": status == "returned" and rng.random() < 0.2,
            }
            booking["price"] = price_of(bike, booking, customer["membership"])["total"]
            bookings[booking_id] = booking
    return bookings


def _span(rng: random.Random) -> tuple[date, int, str]:
    """Return the start, the days and the status of a booking."""
    days = rng.randint(1, 6)
    drawn = rng.random()
    if drawn < 0.5:
        return TODAY + timedelta(days=rng.choice(_STARTS)), days, "booked"
    if drawn < 0.65:
        return TODAY - timedelta(days=rng.randint(0, days)), days + 1, "picked_up"
    return TODAY - timedelta(days=days + rng.randint(2, 25)), days, "returned"
