"""The reward of a purchase, by WebShop's published formula.

``type factor * (matched attributes + matched options + [price within the limit]) / (attributes + options
+ 1)``, between 0 and 1. Where the original has a tagger find the nouns of titles, every word of letters
that is no stop word counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from thefuzz import fuzz

if TYPE_CHECKING:
    from .goals import Goal
    from .products import Product


_ALIKE = 85
"""Texts with a higher token set ratio count as the same."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_NO_NOUNS = (
    "about above after again all also am an and any are as at be been before being below between both but by"
    " can could did do does doing down during each few for from further had has have having he her here hers"
    " him his how if in into is it its just me more most my no nor not now of off on once only or other our"
    " out over own per same she should so some such than that the their them then there these they this those"
    " through to too under until up upon us very via was we were what when where which while who whom why"
    " will with without would you your"
)
_STOP_WORDS = frozenset(_NO_NOUNS.split())
_COLOUR_NAMES = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy"
    " camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral"
    " cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass"
    " gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon"
    " mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach"
    " pewter pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel"
    " stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
)
_COLOURS = tuple(_COLOUR_NAMES.split())
"""An option that names one counts as that colour; in the order in which they are looked for."""


def reward(bought: Product, options: Mapping[str, str], goal: Goal, wanted: Product) -> float:
    """Return what buying a product with these options is worth; ``wanted`` is the goal's own product."""
    matched = _attribute_matches(bought, goal) + _option_matches(options, goal)
    share = (matched + (bought.price <= goal.price_limit)) / (len(goal.attributes) + len(goal.options) + 1)
    return type_factor(bought, wanted) * share


def type_factor(bought: Product, wanted: Product) -> float:
    """Return how far it is the kind of product that was wanted: 0, 0.1, 0.5 or 1."""
    words = title_words(wanted.title)
    overlap = len(set(words) & set(title_words(bought.title))) / len(words) if words else 0.2
    if overlap == 0:
        return 0.0
    if overlap < 0.1:
        return 0.1
    categories = set(_path(bought)) & set(_path(wanted))
    same_kind = bought.query == wanted.query or len(categories) >= 2 or overlap > 0.2
    return 1.0 if same_kind else 0.5


def title_words(title: str) -> list[str]:
    """Return the words of a title that stand for its nouns, with repetitions."""
    return [word for word in _LETTERS.findall(title.lower()) if word not in _STOP_WORDS]


def _path(product: Product) -> list[str]:
    return [step.strip() for step in product.product_category.split("›")]  # noqa: RUF001


def _attribute_matches(bought: Product, goal: Goal) -> int:
    return sum(
        any(fuzz.token_set_ratio(has, wanted) > _ALIKE for has in bought.attributes)
        or _is_mentioned(wanted, bought)
        for wanted in goal.attributes
    )


def _option_matches(options: Mapping[str, str], goal: Goal) -> int:
    chosen = [_plain_colour(value) for value in options.values()]
    return sum(
        any(fuzz.token_set_ratio(value, wanted) > _ALIKE for value in chosen)
        for wanted in map(_compared, goal.options)
    )


def _compared(option: tuple[str, str]) -> str:
    """Return what a chosen value is compared with.

    The original compares the pair of name and value, written as Python writes it, and knows a colour there
    only when it is the whole value. So ``228black``, rightly chosen, does not match itself.
    """
    name, value = option
    if not name:
        return _plain_colour(value)
    return value if value in _COLOURS else str(option)


def _is_mentioned(words: str, product: Product) -> bool:
    texts = (product.title, " ".join(product.bullet_points), product.description)
    return any(words in text.lower() for text in texts)


def _plain_colour(option: str) -> str:
    """Return the first colour, in the order of the list, that occurs in an option value; else the value."""
    return next((colour for colour in _COLOURS if colour in option), option)
