"""Small products for tests of the shop."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from sandbox_service.environments.webshop.box.products import Product, ShoppingRequest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Shelf", "product", "raw_product", "write_products"]


def product(asin: str = "B000000001", **changes: Any) -> Product:
    """A red or blue mug."""
    facts: dict[str, Any] = {
        "asin": asin,
        "title": "Stoneware Mug with Handle",
        "description": "A mug.",
        "bullet_points": ("Dishwasher safe", "Holds 300 ml"),
        "price": 12.5,
        "price_tag": "$12.5",
        "rating": "N.A.",
        "reviews": (),
        "options": {"color": ("red", "blue"), "size": ("small", "large")},
        "attributes": ("dishwasher safe", "lead free"),
        "category": "garden",
        "query": "mugs",
        "product_category": "Home & Kitchen › Dining › Mugs",  # noqa: RUF001
        "searched": "stoneware mug with handle",
        "made_request": ShoppingRequest("Find me lead free mugs", ("lead free",)),
        "human_requests": (),
    }
    return Product(**(facts | changes))


class Shelf:
    """A shop that finds everything, whatever it is asked for."""

    def __init__(self, *products: Product) -> None:
        self._products = {each.asin: each for each in products}

    def product(self, asin: str) -> Product:
        return self._products[asin]

    def search(self, query: str) -> tuple[str, ...]:
        return tuple(self._products)


def raw_product(asin: str, **changes: Any) -> dict[str, Any]:
    """A line of the documents file."""
    facts = {
        "Title": "Stoneware Mug",
        "Description": "",
        "BulletPoints": ["Dishwasher safe"],
        "pricing": [12.5],
        "Price": "$12.5",
        "Rating": "N.A.",
        "Reviews": [],
        "options": {"color": ["red", "blue"]},
        "Attributes": ["lead free"],
        "category": "garden",
        "query": "mugs",
        "product_category": "Home › Mugs",  # noqa: RUF001
    }
    return {"id": asin, "contents": "stoneware mug", "product": facts | changes}


def write_products(
    folder: Path, documents: list[dict[str, Any]], instructions: dict[str, Any] | None = None
) -> None:
    """Both files of a product set."""
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    (folder / "documents_tiny.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "items_ins_tiny.json").write_text(json.dumps(instructions or {}))
