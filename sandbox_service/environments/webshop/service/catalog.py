"""Goals of the shop as tasks, in the official order and splits, and how to reach each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.shared.service.game_catalog import (
    GameCatalog,
    GameFacts,
    GameTask,
    game_spec,
)
from sandbox_service.environments.webshop.box.goals import Goal, human_goals, synthetic_goals
from sandbox_service.environments.webshop.box.products import Product, ProductsError, read_products
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import WebshopConfig
    from sandbox_service.environments.base import Provisions


_OFFICIAL_TEST, _OFFICIAL_EVAL = 500, 1000
_PARAMS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "show_attrs": {
            "type": "boolean",
            "default": False,
            "description": "Products have a page with their attributes and their place in the shop.",
        }
    },
    "additionalProperties": False,
}


class WebshopCatalog(GameCatalog):
    """The goals of one product set."""

    def __init__(self, config: WebshopConfig, provisions: Provisions) -> None:
        spec = game_spec("webshop", provisions, many_per_worker=config.many_per_worker)
        facts = GameFacts(
            description="Find and buy the product that an instruction asks for, in a shop of text pages.",
            actions="search[words] or click[name of a button, product or option].",
            default_split="train",
            max_steps=config.max_steps,
            params=_PARAMS,
        )
        super().__init__(spec, facts, lambda: read_goals(provisions.data))


def read_goals(data: Path) -> Iterator[GameTask]:
    """Yield the goals of a data folder: made ones in the official order, then those that people wrote.

    Raises ServiceError(TASK_INVALID).
    """
    try:
        products = read_products(data)
    except ProductsError as error:
        raise ServiceError(ErrorCode.TASK_INVALID, f"webshop: {error}") from error
    by_number = {product.asin: product for product in products}
    made = synthetic_goals(products)
    for number, goal in enumerate(made):
        splits = (_split(number, len(made)), "all")
        yield _task(f"synthetic-{number:04d}", goal, by_number[goal.asin], splits)
    for number, goal in enumerate(human_goals(products)):
        yield _task(f"human-{number:02d}", goal, by_number[goal.asin], ("human", "all"))


def _split(number: int, goals: int) -> str:
    """Return the official split of a goal; a set too small for those gives a fifth each to test and eval."""
    if goals >= 2 * (_OFFICIAL_TEST + _OFFICIAL_EVAL):
        test, validation = _OFFICIAL_TEST, _OFFICIAL_EVAL
    else:
        test = validation = goals // 5
    if number < test:
        return "test"
    return "eval" if number < test + validation else "train"


def _task(task_id: str, goal: Goal, product: Product, splits: Sequence[str]) -> GameTask:
    return GameTask(
        id=task_id,
        category=product.category,
        splits=tuple(splits),
        task={"goal": goal.to_json()},
        reference=_purchase(goal, product),
    )


def _purchase(goal: Goal, product: Product) -> tuple[str, ...]:
    """Return the actions of a customer who knows the product: its title finds it on the first page."""
    choices = [f"click[{value}]" for _, value in goal.options if _offers(product, value)]
    words = product.title or product.query
    return (f"search[{words}]", f"click[{goal.asin.lower()}]", *choices, "click[buy now]")


def _offers(product: Product, value: str) -> bool:
    return any(value in values for values in product.options.values())
