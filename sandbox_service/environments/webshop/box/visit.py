"""One customer's visit: the page that is open, its text, and the effect of clicks.

Pages have WebShop's texts and buttons. A visit is small and holds no product, so copies of it are cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from . import pages

if TYPE_CHECKING:
    from .products import Product


_ON_A_PAGE = 10


class ProductIndex(Protocol):
    """The methods of a shop that a visit calls."""

    def product(self, asin: str) -> Product: ...

    def search(self, query: str) -> tuple[str, ...]: ...


class PageKind(StrEnum):
    """Kinds of pages; those below an item are named like their buttons."""

    SEARCH = "search"
    RESULTS = "results"
    ITEM = "item"
    DESCRIPTION = "description"
    FEATURES = "features"
    REVIEWS = "reviews"
    ATTRIBUTES = "attributes"
    END = "end"


_BELOW_ITEM = (PageKind.DESCRIPTION, PageKind.FEATURES, PageKind.REVIEWS, PageKind.ATTRIBUTES)


@dataclass(slots=True)
class Visit:
    """The page of a customer, and the choices so far."""

    instruction: str
    show_attributes: bool = False
    page: PageKind = PageKind.SEARCH
    found: tuple[str, ...] = ()
    """Numbers of the products that the last search found."""
    number: int = 1
    """Of the page of results."""
    asin: str = ""
    """The product that is open."""
    options: dict[str, str] = field(default_factory=dict)
    """Chosen values by option."""

    def search(self, shop: ProductIndex, query: str) -> None:
        """Open the first page of results."""
        self.found = shop.search(query)
        self._show_results(1)

    def click(self, shop: ProductIndex, target: str) -> bool:
        """Follow a button, product number or option value; whether the page has it."""
        if target not in self.clickables(shop) or target == pages.SEARCH:
            return False
        below = [page for page in _BELOW_ITEM if page == target]
        if self.page is PageKind.ITEM and self._choose(shop, target):
            return True
        if target == pages.BACK_TO_SEARCH:
            self.page, self.found, self.asin, self.options = PageKind.SEARCH, (), "", {}
        elif target == pages.NEXT:
            self._show_results(self.number + 1)
        elif target == pages.PREVIOUS:
            self._go_back()
        elif target == pages.BUY:
            self.page = PageKind.END
        elif below:
            self.page = below[0]
        else:
            self.page, self.asin = PageKind.ITEM, target.upper()
        return True

    def clickables(self, shop: ProductIndex) -> list[str]:
        """Return what can be clicked, in lower case, in the order of the page."""
        if self.page is PageKind.SEARCH:
            return [pages.SEARCH]
        if self.page is PageKind.RESULTS:
            turns = [pages.PREVIOUS, pages.NEXT] if self.number > 1 else [pages.NEXT]
            return [pages.BACK_TO_SEARCH, *turns, *(asin.lower() for asin in self._shown())]
        if self.page is PageKind.ITEM:
            below = [page for page in _BELOW_ITEM if page is not PageKind.ATTRIBUTES or self.show_attributes]
            values = [value for values in shop.product(self.asin).options.values() for value in values]
            buttons = [pages.BACK_TO_SEARCH, pages.PREVIOUS, *(page.value for page in below), pages.BUY]
            return list(dict.fromkeys([*buttons, *values]))
        return [] if self.page is PageKind.END else [pages.BACK_TO_SEARCH, pages.PREVIOUS]

    def text(self, shop: ProductIndex) -> str:
        """Return the page as text; the last page is the seller's."""
        if self.page is PageKind.SEARCH:
            return pages.search_page(self.instruction)
        if self.page is PageKind.RESULTS:
            products = [shop.product(asin) for asin in self._shown()]
            return pages.results_page(self.instruction, products, self.number, len(self.found))
        product = shop.product(self.asin)
        if self.page is PageKind.ITEM:
            return pages.item_page(self.instruction, product, attributes=self.show_attributes)
        return pages.sub_page(self.instruction, pages.SUB_PAGES[self.page.value](product))

    def _show_results(self, number: int) -> None:
        self.page, self.number, self.asin, self.options = PageKind.RESULTS, number, "", {}

    def _go_back(self) -> None:
        if self.page is PageKind.ITEM:
            self._show_results(self.number)
        elif self.page is PageKind.RESULTS:
            self._show_results(self.number - 1)
        else:
            self.page = PageKind.ITEM

    def _choose(self, shop: ProductIndex, target: str) -> bool:
        """Choose an option value; of several options that have it the last, as in the original."""
        names = [name for name, values in shop.product(self.asin).options.items() if target in values]
        if names:
            self.options = {**self.options, names[-1].lower(): target}
        return bool(names)

    def _shown(self) -> tuple[str, ...]:
        return self.found[(self.number - 1) * _ON_A_PAGE : self.number * _ON_A_PAGE]
