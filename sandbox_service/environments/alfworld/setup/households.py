"""Households of our own in ALFRED's planning language: games for tests and first contact, not the benchmark.

Rooms, things and names are ours; what can be done, and what counts as done, is the domain's.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HOUSEHOLDS", "Household", "problem"]

_PLACES = {
    "fridge": ("Fridge", True),
    "microwave": ("Microwave", True),
    "sinkbasin": ("SinkBasin", False),
    "countertop": ("CounterTop", False),
    "diningtable": ("DiningTable", False),
    "cabinet": ("Cabinet", True),
    "drawer": ("Drawer", True),
    "garbagecan": ("GarbageCan", False),
    "desk": ("Desk", False),
    "shelf": ("Shelf", False),
    "bed": ("Bed", False),
}
"""Name: type, and whether it opens."""
_HEATABLE = ["apple", "bread", "cup", "egg", "mug", "plate", "potato", "tomato"]
_COOLABLE = (
    "apple",
    "bowl",
    "bread",
    "cup",
    "egg",
    "lettuce",
    "mug",
    "pan",
    "plate",
    "pot",
    "potato",
    "tomato",
)
_CLEANABLE = (
    "apple",
    "bowl",
    "cup",
    "fork",
    "knife",
    "lettuce",
    "mug",
    "pan",
    "plate",
    "pot",
    "tomato",
    "spoon",
)
_TYPES = {"cd": "CD", "desklamp": "DeskLamp", "alarmclock": "AlarmClock", "creditcard": "CreditCard"}


@dataclass(frozen=True, slots=True)
class Household:
    """One game: what is where, and what is to be done."""

    name: str
    split: str
    kind: str
    """The task type of ALFRED."""
    goal: dict[str, str]
    """Fills in the goal of that type."""
    things: dict[str, tuple[str, ...]]
    """Place to things; ``cabinet 2`` is the second cabinet."""


HOUSEHOLDS = (
    Household(
        "put-mug-on-desk",
        "train",
        "pick_and_place_simple",
        {"obj": "Mug", "recep": "Desk"},
        {
            "desk 1": ("pencil", "cd"),
            "shelf 1": ("book",),
            "drawer 1": ("creditcard",),
            "drawer 2": ("mug",),
            "bed 1": ("book",),
            "garbagecan 1": (),
        },
    ),
    Household(
        "read-book-by-lamp",
        "train",
        "look_at_obj_in_light",
        {"obj": "Book", "toggle": "DeskLamp"},
        {
            "desk 1": ("desklamp", "pencil"),
            "shelf 1": ("cd",),
            "bed 1": ("book",),
            "drawer 1": ("alarmclock",),
            "garbagecan 1": (),
        },
    ),
    Household(
        "clean-fork-in-drawer",
        "train",
        "pick_clean_then_place_in_recep",
        {"obj": "Fork", "recep": "Drawer"},
        {
            "countertop 1": ("bread", "knife"),
            "countertop 2": ("fork", "plate"),
            "sinkbasin 1": ("spoon",),
            "drawer 1": (),
            "cabinet 1": ("bowl",),
            "fridge 1": ("egg", "lettuce"),
        },
    ),
    Household(
        "hot-apple-on-table",
        "train",
        "pick_heat_then_place_in_recep",
        {"obj": "Apple", "recep": "DiningTable"},
        {
            "countertop 1": ("bread", "plate"),
            "fridge 1": ("apple", "tomato"),
            "microwave 1": (),
            "diningtable 1": ("bowl",),
            "cabinet 1": ("mug",),
            "cabinet 2": ("pan",),
        },
    ),
    Household(
        "cold-tomato-on-counter",
        "valid_seen",
        "pick_cool_then_place_in_recep",
        {"obj": "Tomato", "recep": "CounterTop"},
        {
            "countertop 1": ("bread",),
            "diningtable 1": ("tomato", "potato"),
            "fridge 1": ("egg",),
            "microwave 1": ("mug",),
            "garbagecan 1": ("apple",),
        },
    ),
    Household(
        "two-books-on-shelf",
        "valid_unseen",
        "pick_two_obj_and_place",
        {"obj": "Book", "recep": "Shelf"},
        {
            "shelf 1": ("cd",),
            "desk 1": ("book", "pencil"),
            "bed 1": ("pillow",),
            "drawer 1": ("book",),
            "drawer 2": (),
            "garbagecan 1": (),
        },
    ),
)


def problem(household: Household, goal: str) -> str:
    """The game in the planning language; ``goal`` is the type's own text, which closes the definition."""
    places = {key: _identifier(*key.split()) for key in household.things}
    things = [
        (f"{thing}_bar_{number}", thing, place)
        for number, (place, thing) in enumerate(
            (place, thing) for place, inside in household.things.items() for thing in inside
        )
    ]
    place_types = sorted({_PLACES[key.split()[0]][0] for key in places})
    thing_types = sorted({_type(thing) for _, thing, _ in things} | {"Knife", "ButterKnife"})
    extra = {"Microwave", "Fridge", "SinkBasin"} - set(place_types)
    lines = [f"(define (problem {household.name}) (:domain alfred) (:objects", "agent1 - agent"]
    lines += [f"{name} - object" for name, _, _ in things]
    lines += [f"{name} - receptacle" for name in places.values()]
    lines += [f"{kind}Type - rtype" for kind in [*place_types, *sorted(extra)]]
    lines += [f"{kind}Type - otype" for kind in thing_types]
    lines += [f"loc{number} - location" for number in range(len(places) + 1)]
    lines += [")", "(:init", "(= (total-cost) 0)", f"(atLocation agent1 loc{len(places)})"]
    for number, (key, name) in enumerate(places.items()):
        kind, opens = _PLACES[key.split()[0]]
        lines += [f"(receptacleType {name} {kind}Type)", f"(receptacleAtLocation {name} loc{number})"]
        lines += [f"(openable {name})"] if opens else []
    lines += [f"(canContain {place}Type {thing}Type)" for place in place_types for thing in thing_types]
    for name, thing, place in things:
        lines += [f"(objectType {name} {_type(thing)}Type)", f"(inReceptacle {name} {places[place]})"]
        lines += [f"(objectAtLocation {name} loc{list(places).index(place)})"]
        lines += [f"({what} {name})" for what in _properties(thing)]
    return "\n".join([*lines, ")", goal])


def _identifier(kind: str, number: str) -> str:
    """As ALFRED has it: a sink's basin is part of a sink."""
    return f"sink_bar_{number}_bar_sinkbasin" if kind == "sinkbasin" else f"{kind}_bar_{number}"


def _type(thing: str) -> str:
    return _TYPES.get(thing, thing.capitalize())


def _properties(thing: str) -> list[str]:
    if thing == "desklamp":
        return ["toggleable"]
    able = {"heatable": _HEATABLE, "coolable": _COOLABLE, "cleanable": _CLEANABLE}
    return ["pickupable", *(name for name, things in able.items() if thing in things)]
