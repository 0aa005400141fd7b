"""Questions of one to three steps along the facts of the encyclopedia, each with one right answer.

    1   In which city was Ada Velmor born?
    2   In which city was the author of The Silver Key born?
    3   Who is the mayor of the city in which the author of The Silver Key was born?

Nothing here may change: the tasks of an id are the same for ever, on every machine.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox_service.environments.search_qa.box.encyclopedia import REGIONS, Entity, load_world

STEPS = (1, 2, 3)
_TASKS = {"train": (150, 225, 225), "validation": (20, 30, 30), "test": (50, 75, 75)}
"""Tasks of each split with one, two and three steps."""
_NOUNS = {
    "capital": "the capital of {}",
    "longest_river": "the longest river of {}",
    "highest_mountain": "the highest mountain of {}",
    "river": "the river on which {} lies",
    "mayor": "the mayor of {}",
    "twin_city": "the twin city of {}",
    "source": "the mountain on which {} rises",
    "first_climber": "the first person to climb {}",
    "headquarters": "the city in which {} has its headquarters",
    "founder": "the founder of {}",
    "birthplace": "the city in which {} was born",
    "employer": "the company for which {} worked",
    "teacher": "the teacher of {}",
    "author": "the author of {}",
    "setting": "the city in which {} is set",
}
"""Relations whose value is an entity, as a part of a question."""
_WITH_UNIT = ", with its unit?"
_UNITS = ("metres", "kilometres")
_QUESTIONS = {
    "capital": ("What is the capital of {}?", "From which capital is {} governed?"),
    "currency": ("What is the currency of {}?", "With which currency do people pay in {}?"),
    "longest_river": ("Which is the longest river of {}?", "What is the longest river in {} called?"),
    "highest_mountain": ("What is the highest mountain of {}?", "Which mountain is the highest in {}?"),
    "river": ("On which river does {} lie?", "Which river flows through {}?"),
    "mayor": ("Who is the mayor of {}?", "Who has been elected mayor of {}?"),
    "twin_city": ("With which city is {} twinned?", "What is the twin city of {}?"),
    "founded": ("In which year was {} founded?", "What is the year of the foundation of {}?"),
    "source": ("On which mountain does {} rise?", "On which mountain is the source of {}?"),
    "length": ("How long is {}?", f"What is the length of {{}}{_WITH_UNIT}"),
    "height": ("How high is {}?", f"What is the height of {{}}{_WITH_UNIT}"),
    "first_climber": ("Who was the first person to climb {}?", "Who first reached the summit of {}?"),
    "first_climbed": ("In which year was {} first climbed?", "When was the first ascent of {}?"),
    "headquarters": ("In which city does {} have its headquarters?", "Where is the head office of {}?"),
    "founder": ("Who founded {}?", "Who was the founder of {}?"),
    "product": ("What does {} make?", "What are the best known products of {}?"),
    "birthplace": ("In which city was {} born?", "What is the birthplace of {}?"),
    "birth_year": ("In which year was {} born?", "What is the year of birth of {}?"),
    "occupation": ("What was the profession of {}?", "As what did {} become known?"),
    "employer": ("For which company did {} work?", "Who employed {}?"),
    "teacher": ("Who taught {}?", "Who was the teacher of {}?"),
    "author": ("Who wrote {}?", "Who is the author of {}?"),
    "year": ("In which year was {} first published?", "When did the first edition of {} appear?"),
    "form": ("What form does {} have?", "As what do critics describe {}?"),
    "setting": ("In which city is {} set?", "In which city does the story of {} take place?"),
}


@dataclass(frozen=True, slots=True)
class SearchTask:
    """One task."""

    id: str
    split: str
    steps: int
    question: str
    answer: str
    entities: tuple[str, ...]
    """Names of the entities whose articles lead to the answer, from the one that the question names on."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """Return the right answers, the full one first: one may do without a unit that is not asked for."""
        number, _, unit = self.answer.partition(" ")
        if unit in _UNITS and not self.question.endswith(_WITH_UNIT):
            return (self.answer, number)
        return (self.answer,)


@functools.cache
def load_tasks() -> dict[str, SearchTask]:
    """Return all tasks by id."""
    tasks: dict[str, SearchTask] = {}
    for split in REGIONS:
        entities = [each for each in load_world() if each.split == split]
        for steps, count in zip(STEPS, _TASKS[split], strict=True):
            chance = random.Random(f"{split} {steps}")
            paths = _paths(entities, steps)
            chance.shuffle(paths)
            for number, (start, relations) in enumerate(_varied(paths, count)):
                task = _task(f"{split}/{steps}_hop/{number}", split, start, relations, chance)
                tasks[task.id] = task
    return tasks


_Path = tuple[Entity, tuple[str, ...]]


def _paths(entities: list[Entity], steps: int) -> list[_Path]:
    """Return every walk of so many steps that comes to no entity twice."""
    return [(start, relations) for start in entities for relations in _walks(start, steps, (start,))]


def _walks(at: Entity, steps: int, passed: tuple[Entity, ...]) -> Iterator[tuple[str, ...]]:
    for relation, value in at.facts.items():
        if steps == 1:
            if value not in passed:
                yield (relation,)
        elif isinstance(value, Entity) and value not in passed and relation in _NOUNS:
            for rest in _walks(value, steps - 1, (*passed, value)):
                yield (relation, *rest)


def _varied(paths: list[_Path], count: int) -> list[_Path]:
    """Return so many walks, taking one of each sequence of relations before a second one of any."""
    rounds: dict[tuple[str, ...], int] = {}
    ranked: list[tuple[int, int]] = []
    for place, (_, relations) in enumerate(paths):
        rounds[relations] = rounds.get(relations, 0) + 1
        ranked.append((rounds[relations], place))
    return [paths[place] for _, place in sorted(ranked)[:count]]


def _task(
    task_id: str, split: str, start: Entity, relations: tuple[str, ...], chance: random.Random
) -> SearchTask:
    phrase, at, passed = start.name, start, [start.name]
    for relation in relations[:-1]:
        phrase = _NOUNS[relation].format(phrase)
        following = at.facts[relation]
        assert isinstance(following, Entity)
        at = following
        passed.append(at.name)
    question = chance.choice(_QUESTIONS[relations[-1]]).format(phrase)
    return SearchTask(task_id, split, len(relations), question, at.value(relations[-1]), tuple(passed))
