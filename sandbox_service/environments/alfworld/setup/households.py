"""Read synthetic households in ALFRED's planning language from ``data/households.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_AUTHORED = tomllib.loads(
    (Path(__file__).resolve().parents[1] / "data" / "households.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class Household:
    """One game: the place of each thing, and the task."""

    name: str
    split: str
    kind: str
    """The task type of ALFRED."""
    goal: dict[str, str]
    """Fills in the goal of that type."""
    things: dict[str, list[str]]
    """Place to things; ``cabinet 2`` is the second cabinet."""


HOUSEHOLDS = tuple(Household(**row) for row in _AUTHORED["household"])


def problem(household: Household, goal: str) -> str:
    """The game in the planning language; ``goal`` is the type's own text, which closes the definition."""
    places = {key: _identifier(*key.split()) for key in household.things}
    things = [
        (f"{thing}_bar_{number}", thing, place)
        for number, (place, thing) in enumerate(
            (place, thing) for place, inside in household.things.items() for thing in inside
        )
    ]
    place_types = sorted({_place(key)["type"] for key in places})
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
        kind, opens = _place(key)["type"], _place(key)["opens"]
        lines += [f"(receptacleType {name} {kind}Type)", f"(receptacleAtLocation {name} loc{number})"]
        lines += [f"(openable {name})"] if opens else []
    lines += [f"(canContain {place}Type {thing}Type)" for place in place_types for thing in thing_types]
    for name, thing, place in things:
        lines += [f"(objectType {name} {_type(thing)}Type)", f"(inReceptacle {name} {places[place]})"]
        lines += [f"(objectAtLocation {name} loc{list(places).index(place)})"]
        lines += [f"({what} {name})" for what in _properties(thing)]
    return "\n".join([*lines, ")", goal])


def _place(key: str) -> dict[str, Any]:
    """Return the properties of a place; ``cabinet 2`` is a cabinet."""
    found: dict[str, Any] = _AUTHORED["places"][key.split()[0]]
    return found


def _identifier(kind: str, number: str) -> str:
    """As ALFRED has it: a sink's basin is part of a sink."""
    return f"sink_bar_{number}_bar_sinkbasin" if kind == "sinkbasin" else f"{kind}_bar_{number}"


def _type(thing: str) -> str:
    kind: str = _AUTHORED["types"].get(thing, thing.capitalize())
    return kind


def _properties(thing: str) -> list[str]:
    if thing == "desklamp":
        return ["toggleable"]
    able = ("heatable", "coolable", "cleanable")
    return ["pickupable", *(name for name in able if thing in _AUTHORED[name])]
