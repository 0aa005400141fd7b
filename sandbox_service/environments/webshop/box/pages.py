"""The texts of WebShop's pages, joined by ``[SEP]``. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .products import Product


SEARCH, BACK_TO_SEARCH, NEXT, PREVIOUS, BUY = "search", "back to search", "next >", "< prev", "buy now"
"""Buttons as they are clicked; pages show them with capitals."""
_SEPARATOR = " [SEP] "


def search_page(instruction: str) -> str:
    """Return the page that a visit begins with."""
    return _joined("WebShop", "Instruction:", instruction, "Search")


def results_page(instruction: str, products: Iterable[Product], number: int, total: int) -> str:
    """Return one page of a search's results."""
    buttons = ("< Prev", "Next >") if number > 1 else ("Next >",)
    listed = [text for product in products for text in (product.asin, product.title, product.price_tag)]
    return _joined(*_head(instruction), f"Page {number} (Total results: {total})", *buttons, *listed)


def item_page(instruction: str, product: Product, *, attributes: bool) -> str:
    """Return the page of one product."""
    options = [text for name, values in product.options.items() for text in (name, *values)]
    facts = (product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}")
    below = ["Description", "Features", "Reviews", *(["Attributes"] if attributes else [])]
    return _joined(*_head(instruction), "< Prev", *options, *facts, *below, "Buy Now")


def sub_page(instruction: str, texts: Sequence[str]) -> str:
    """Return a page below a product's, with its own texts."""
    return _joined(*_head(instruction), "< Prev", *texts)


def end_page(reward: float) -> str:
    """Return the page after a purchase; it does not reveal the goal."""
    return _joined("Thank you for shopping with us!", "Your score (min 0.0, max 1.0)", str(reward))


def _attributes(product: Product) -> tuple[str, ...]:
    return (*product.attributes, product.category, product.query, product.product_category)


def _reviews(product: Product) -> tuple[str, ...]:
    return tuple(text for each in product.reviews for text in (f'"{each.title}"', each.score, each.body))


SUB_PAGES: Mapping[str, Callable[[Product], tuple[str, ...]]] = {
    "description": lambda product: (product.description,),
    "features": lambda product: product.bullet_points,
    "reviews": _reviews,
    "attributes": _attributes,
}
"""Texts of the pages below a product's, by the button that leads there."""


def _head(instruction: str) -> tuple[str, str, str]:
    return ("Instruction:", instruction, "Back to Search")


def _joined(*texts: str) -> str:
    return _SEPARATOR.join(text.strip() for text in texts if text.strip())
