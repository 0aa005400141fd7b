"""Invented names, each given once. Standard library only."""

from __future__ import annotations

import random
from collections.abc import Callable

_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ei", "ou")
_CODAS = ("", "", "", "l", "m", "n", "r", "s", "th", "x")
_ADJECTIVES = (
    *(
        "Amber",
        "Broken",
        "Crimson",
        "Distant",
        "Eleventh",
        "Fading",
        "Gilded",
        "Hollow",
        "Iron",
        "Jade",
        "Last",
    ),
    *("Marble", "Narrow", "Opal", "Patient", "Quiet", "Restless", "Silver", "Tangled", "Unwritten", "Velvet"),
    *("Wandering", "Yellow", "Zealous", "Burning", "Frozen", "Seventh", "Drowned", "Painted", "Sleeping"),
)
_NOUNS = (
    *("Archive", "Bridge", "Compass", "Door", "Ember", "Field", "Garden", "Harbour", "Inn", "Jester", "Key"),
    *("Lantern", "Mirror", "Needle", "Orchard", "Piano", "Quarry", "Raven", "Staircase", "Tower", "Umbrella"),
    *("Voyage", "Window", "Year", "Ferry", "Clock", "Well", "Choir", "Letter", "Crown"),
)


class Names:
    """A source of names; each is given once."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._given: set[str] = set()

    def place(self) -> str:
        """Return a name of a place."""
        return self._new(lambda: self._word(2, 3))

    def person(self) -> str:
        """Return a first name and a last name; no two people share either both or the last one."""
        last = self._new(lambda: self._word(2, 3))
        return f"{self._word(1, 2)} {last}"

    def work(self) -> str:
        """Return a title."""
        return self._new(lambda: f"The {self._chance.choice(_ADJECTIVES)} {self._chance.choice(_NOUNS)}")

    def _new(self, make: Callable[[], str]) -> str:
        while True:
            name = make()
            if name not in self._given:
                self._given.add(name)
                return name

    def _word(self, least: int, most: int) -> str:
        chance = self._chance
        syllables = [
            chance.choice(_ONSETS) + chance.choice(_VOWELS) + chance.choice(_CODAS)
            for _ in range(chance.randint(least, most))
        ]
        return "".join(syllables).capitalize()
