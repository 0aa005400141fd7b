"""One visit to the shop: search, look, choose and buy. The reward comes with the purchase, which ends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from . import pages
from .goals import Goal
from .scoring import reward
from .shop import Shop
from .visit import PageKind, Visit

_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)
_PRICE_TEXT = ", and price lower than"
_INSTRUCTIONS = """\
You are shopping in a web shop. Find the product that the instruction asks for, choose the options it asks \
for, and buy it. You see one page at a time, as text whose parts are separated by [SEP].

Take one action at a time, in one of two forms:
search[words] - search the shop for words
click[name] - click a button, a product number or an option value of the page you see

Results come ten a page; Next > and < Prev turn pages. A click on a product number opens the product, whose \
options you choose by clicking their values, and whose Description, Features and Reviews you can read. \
click[Buy Now] buys the open product with the options you chose and ends the visit. You are paid by how \
well the purchase matches the instruction: kind of product, attributes, options and price.

Think as much as you need, and end your message with the action:
Action: click[...]"""


def warm(data: str | None) -> None:
    """Load the products. Raises ValueError without data, ProductsError where they cannot be read."""
    if data is None:
        raise ValueError("the shop has no data")
    WebshopWorld.shop = Shop.open(Path(data))


class WebshopWorld(GameWorld):
    """One visit of one customer with one goal."""

    shop: ClassVar[Shop]
    """The shop of this box: loaded before the first instance, read by all, and no part of a copy."""
    PARAMS: ClassVar[tuple[str, ...]] = ("show_attrs",)

    def system_prompt(self) -> str:
        return _INSTRUCTIONS

    def open_game(self) -> GameTurn:
        show = self.context.params.get("show_attrs", False)
        if not isinstance(show, bool):
            raise WorldError("show_attrs is true or false", BoxErrorCode.INVALID_REQUEST)
        self.goal = Goal.from_json(self.task["goal"])
        try:
            self.shop.product(self.goal.asin)
        except KeyError:
            raise WorldError(
                "the goal's product is not in this shop: other data than the service's"
            ) from None
        self.visit = Visit(self.goal.instruction, show)
        return self._page()

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        form = _ACTION.fullmatch(action)
        if form is None:
            return self._page("An action is search[words] or click[name].")
        verb, target = form[1].lower(), form[2].strip().lower()
        if verb == "search":
            if not target:
                return self._page("A search needs words: search[words].")
            self.visit.search(self.shop, target)
        elif not self.visit.click(self.shop, target):
            return self._page(f"There is nothing called {target!r} to click on this page.")
        return self._bought() if self.visit.page is PageKind.END else self._page()

    def _bought(self) -> GameTurn:
        shop, visit = self.shop, self.visit
        product, wanted = shop.product(visit.asin), shop.product(self.goal.asin)
        score = reward(product, visit.options, self.goal, wanted)
        info = {"instruction_text": visit.instruction, "has_search_bar": False}
        return GameTurn(
            pages.end_page(score), reward=score, score=score, done=True, success=score >= 1.0, info=info
        )

    def _page(self, problem: str = "") -> GameTurn:
        """Return the page that is open, below what was wrong with the action."""
        visit, text = self.visit, self.visit.text(self.shop)
        searching = visit.page is PageKind.SEARCH
        if searching:
            words, _, _ = visit.instruction.partition(_PRICE_TEXT)
            actions = [f"search[{words}]"]
        else:
            actions = [f"click[{target}]" for target in visit.clickables(self.shop)]
        return GameTurn(
            f"{problem}\n\n{text}" if problem else text,
            actions=tuple(actions),
            info={"instruction_text": visit.instruction, "has_search_bar": searching},
        )


WORLD = WebshopWorld
