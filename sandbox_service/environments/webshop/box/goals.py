"""The goals of instructions, made from the products by WebShop's published rules.

A made request gives one goal for every combination of its product's options; a human request is one goal.
Most goals have a price limit, drawn from the next four multiples of ten above the product's price. All
draws are seeded, so the service and the box, and every start of them, know the same goals. Standard
library only.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .products import SEED

if TYPE_CHECKING:
    from .products import Product


NO_LIMIT = 1_000_000.0
"""Price limit of a goal without one."""
_LIMITS = [10.0 * step for step in range(1, 100)]


@dataclass(frozen=True, slots=True)
class Goal:
    """The product and options to buy. Ground truth, except for the instruction."""

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """Option names and values; a human request has no names."""
    price_limit: float

    def to_json(self) -> dict[str, Any]:
        """Return the goal as a JSON object."""
        return {
            "asin": self.asin,
            "instruction": self.instruction,
            "attributes": list(self.attributes),
            "options": [list(option) for option in self.options],
            "price_limit": self.price_limit,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Goal:
        """Read what ``to_json`` wrote."""
        options = tuple((name, value) for name, value in raw["options"])
        return cls(raw["asin"], raw["instruction"], tuple(raw["attributes"]), options, raw["price_limit"])


def synthetic_goals(products: Iterable[Product]) -> list[Goal]:
    """Return goals of the made requests, in the official order of a set of this size."""
    drawn = random.Random(SEED)
    goals = list(itertools.chain.from_iterable(_combinations(product, drawn) for product in products))
    return _shuffled(goals)


def human_goals(products: Iterable[Product]) -> list[Goal]:
    """Return goals of requests that people wrote."""
    drawn = random.Random(SEED)
    goals: list[Goal] = []
    for product in products:
        for request in product.human_requests:
            if request.attributes:
                limit, text = _limit(product, drawn)
                instruction = request.text.strip(".") + text
                options = tuple(("", value) for value in request.options)
                goals.append(Goal(product.asin, instruction, request.attributes, options, limit))
    return _shuffled(goals)


def _combinations(product: Product, drawn: random.Random) -> Iterator[Goal]:
    request = product.made_request
    if request is None or not request.attributes:
        return
    limit, limit_text = _limit(product, drawn)
    names = sorted(product.options)
    for values in itertools.product(*(product.options[name] for name in names)):
        options = tuple(zip(names, values, strict=True))
        wanted = ", and ".join(f"{name}: {value}" for name, value in options)
        with_options = f" with {wanted}" if wanted else ""
        instruction = f"{request.text}{with_options}{limit_text}"
        yield Goal(product.asin, instruction, request.attributes, options, limit)


def _limit(product: Product, drawn: random.Random) -> tuple[float, str]:
    """Return a price limit, and what the instruction says of it."""
    above = [limit for limit in _LIMITS if limit > product.price][:4]
    if len(above) < 2:
        return NO_LIMIT, ""
    limit = max(drawn.sample(above, 2))
    return limit, f", and price lower than {limit:.2f} dollars"


def _shuffled(goals: Sequence[Goal]) -> list[Goal]:
    # The official order follows from its seed and the number of goals alone.
    shuffled = list(goals)
    random.Random(SEED).shuffle(shuffled)
    return shuffled
