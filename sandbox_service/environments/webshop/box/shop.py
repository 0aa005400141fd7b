"""The shop: its products and their search index. Loaded once a box, read by all its instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .products import read_products
from .search import Index

if TYPE_CHECKING:
    from pathlib import Path

    from .products import Product


class Shop:
    """Products by number, and the search."""

    def __init__(self, products: Sequence[Product]) -> None:
        self._order = [product.asin for product in products]
        self._products = {product.asin: product for product in products}
        self._index = Index([product.searched for product in products])

    @classmethod
    def open(cls, folder: Path) -> Shop:
        """Return the shop of a data folder. Raises ProductsError."""
        return cls(read_products(folder))

    def product(self, asin: str) -> Product:
        """Return a product by its number. Raises KeyError."""
        return self._products[asin]

    def search(self, query: str) -> tuple[str, ...]:
        """Return numbers of the products that a query finds, best first."""
        return tuple(self._order[place] for place in self._index.search(query))
