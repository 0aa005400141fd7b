"""The articles of the encyclopedia, as passages that can be searched and read. Standard library only."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

from .encyclopedia import Entity, load_world

_SEED = 7

_SENTENCES: dict[str, tuple[dict[str, tuple[str, ...]], ...]] = {
    "country": (
        {
            "capital": ("The capital of {name} is {value}.", "{name} is governed from {value}, its capital."),
            "currency": ("People pay with the {value}.", "Its currency is the {value}."),
        },
        {
            "longest_river": (
                "The longest river of {name} is {value}.",
                "No river of {name} is longer than {value}.",
            ),
            "highest_mountain": (
                "The land rises to {value}, its highest mountain.",
                "Its highest point is {value}.",
            ),
        },
    ),
    "city": (
        {
            "river": (
                "{name} lies on the banks of {value}.",
                "The city of {name} grew where {value} could be crossed.",
            ),
            "founded": (
                "It was founded in {value}.",
                "Its charter dates from {value}, the year of its foundation.",
            ),
        },
        {
            "mayor": ("The mayor of {name} is {value}.", "{value} has been elected mayor of {name}."),
            "twin_city": ("{name} is twinned with {value}.", "Its twin city is {value}."),
        },
    ),
    "person": (
        {
            "birthplace": ("{name} was born in {value}.", "{name} came from {value}, the place of birth."),
            "birth_year": (
                "The year of birth was {value}.",
                "The register gives {value} as the year of birth.",
            ),
            "occupation": ("{name} became known as a {value}.", "By profession {name} was a {value}."),
        },
        {
            "employer": ("For many years {name} worked for {value}.", "{name} was employed by {value}."),
            "teacher": ("{name} was taught by {value}.", "{value} was the teacher of {name}."),
        },
    ),
    "work": (
        {
            "author": ("{name} was written by {value}.", "The author of {name} is {value}."),
            "form": ("It is a {value}.", "Critics describe it as a {value}."),
        },
        {
            "year": (
                "{name} was first published in {value}.",
                "The first edition of {name} appeared in {value}.",
            ),
            "setting": ("The story takes place in {value}.", "It is set in {value}."),
        },
    ),
    "company": (
        {
            "founder": ("{name} was founded by {value}.", "The founder of {name} was {value}."),
            "founded": (
                "Business began in {value}, the year of its foundation.",
                "It was founded in {value}.",
            ),
        },
        {
            "headquarters": (
                "{name} has its headquarters in {value}.",
                "The head office of {name} is in {value}.",
            ),
            "product": ("It makes {value}.", "Its best known products are {value}."),
        },
    ),
    "river": (
        {
            "source": ("{Name} rises on {value}.", "The source of {name} is on {value}."),
            "length": ("It is {value} long.", "From source to mouth it measures {value}."),
        },
    ),
    "mountain": (
        {
            "height": ("{name} has a height of {value}.", "{name} reaches {value} above the sea."),
            "first_climber": (
                "The first person to climb it was {value}.",
                "{value} was the first to reach its summit.",
            ),
            "first_climbed": ("That was in {value}.", "The first ascent was made in {value}."),
        },
    ),
}
"""Sentences by kind, passage and relation."""
_FILLER = (
    "Little else is recorded about those years.",
    "Several later accounts disagree about details.",
    "Visitors mention it in their letters.",
    "A short notice in an almanac repeats the same.",
    "The regional museum keeps a few documents.",
    "Older books spell the name in another way.",
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of an article."""

    number: int
    title: str
    text: str


@functools.cache
def load_passages() -> tuple[Passage, ...]:
    """Return all passages; their numbers count from 0."""
    chance = random.Random(_SEED)
    texts = [(each, text) for each in load_world() for text in _texts(each, chance)]
    chance.shuffle(texts)
    return tuple(Passage(number, _title(each), text) for number, (each, text) in enumerate(texts))


def _texts(entity: Entity, chance: random.Random) -> list[str]:
    """Return the passages of an article, in each of which all sentences are about the entity."""
    found = []
    for relations in _SENTENCES[entity.kind]:
        sentences = [
            chance.choice(forms).format(name=entity.name, Name=_title(entity), value=entity.value(relation))
            for relation, forms in relations.items()
        ]
        text = " ".join([*sentences, chance.choice(_FILLER)])
        found.append(text[0].upper() + text[1:])
    return found


def _title(entity: Entity) -> str:
    return entity.name[0].upper() + entity.name[1:]
