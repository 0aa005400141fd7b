"""An invented world: entities of seven kinds, and facts that relate them. Standard library only.

Every fact of an entity has one value. The world has regions, and each fact stays within a region, so that
questions about one region say nothing about another. Nothing here may change: the world is the same for ever.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, field

from .names import Names

_SEED = 20_261_122
REGIONS = {"train": 6, "validation": 1, "test": 2}
"""Number of regions by the split of the questions about them."""
_CITIES, _PEOPLE, _WORKS, _COMPANIES, _RIVERS, _MOUNTAINS = 24, 84, 60, 30, 10, 12
"""Number of entities in a region, which is one country."""
_OCCUPATIONS = ("painter", "botanist", "engineer", "composer", "historian", "surgeon", "architect", "chemist")
_PRODUCTS = ("clocks", "bicycles", "glassware", "paper", "lenses", "tea", "furniture", "locomotives", "soap")
_FORMS = ("novel", "opera", "collection of poems", "history", "play")
_CURRENCY_UNITS = ("crown", "mark", "thaler", "florin", "ducat", "talent", "guilder", "shilling", "penny")


@dataclass(eq=False)
class Entity:
    """A thing with an article in the encyclopedia."""

    name: str
    kind: str
    """``country``, ``city``, ``person``, ``work``, ``company``, ``river`` or ``mountain``."""
    split: str
    facts: dict[str, Entity | str] = field(default_factory=dict)
    """Values by relation: another entity, or a text such as a year."""

    def value(self, relation: str) -> str:
        """Return the value of a fact as text."""
        value = self.facts[relation]
        return value.name if isinstance(value, Entity) else value


@functools.cache
def load_world() -> tuple[Entity, ...]:
    """Return all entities."""
    chance = random.Random(_SEED)
    names = Names(chance)
    units = list(_CURRENCY_UNITS)
    found: list[Entity] = []
    for split, count in REGIONS.items():
        for _ in range(count):
            found += _region(split, units.pop(), names, chance)
    return tuple(found)


def _region(split: str, unit: str, names: Names, chance: random.Random) -> list[Entity]:
    country = Entity(names.place(), "country", split)
    cities = [Entity(names.place(), "city", split) for _ in range(_CITIES)]
    people = [Entity(names.person(), "person", split) for _ in range(_PEOPLE)]
    works = [Entity(names.work(), "work", split) for _ in range(_WORKS)]
    companies = [Entity(f"{names.place()} Works", "company", split) for _ in range(_COMPANIES)]
    rivers = [Entity(f"the {names.place()}", "river", split) for _ in range(_RIVERS)]
    mountains = [Entity(f"Mount {names.place()}", "mountain", split) for _ in range(_MOUNTAINS)]
    country.facts = {
        "capital": chance.choice(cities),
        "currency": f"{country.name} {unit}",
        "longest_river": chance.choice(rivers),
        "highest_mountain": chance.choice(mountains),
    }
    for city in cities:
        city.facts = {
            "river": chance.choice(rivers),
            "mayor": chance.choice(people),
            "founded": str(chance.randint(900, 1700)),
            "twin_city": chance.choice([each for each in cities if each is not city]),
        }
    for river in rivers:
        river.facts = {"source": chance.choice(mountains), "length": f"{chance.randint(40, 900)} kilometres"}
    for mountain in mountains:
        mountain.facts = {
            "height": f"{chance.randint(900, 6200)} metres",
            "first_climber": chance.choice(people),
            "first_climbed": str(chance.randint(1780, 1960)),
        }
    for company in companies:
        company.facts = {
            "headquarters": chance.choice(cities),
            "founder": chance.choice(people),
            "founded": str(chance.randint(1820, 1990)),
            "product": chance.choice(_PRODUCTS),
        }
    for person in people:
        person.facts = {
            "birthplace": chance.choice(cities),
            "birth_year": str(chance.randint(1750, 1930)),
            "occupation": chance.choice(_OCCUPATIONS),
            "employer": chance.choice(companies),
            "teacher": chance.choice([each for each in people if each is not person]),
        }
    for work in works:
        work.facts = {
            "author": chance.choice(people),
            "year": str(chance.randint(1800, 1990)),
            "form": chance.choice(_FORMS),
            "setting": chance.choice(cities),
        }
    return [country, *cities, *people, *works, *companies, *rivers, *mountains]
