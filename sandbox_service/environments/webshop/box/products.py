"""Products of a shop, read from the two files in which WebShop's product sets are distributed.

``documents*.jsonl`` (or ``.jsonl.gz``) has one product a line, with the text that is searched;
``items_ins*.json`` has, by product number, the instruction that was made for it. The service and the box
read the same folder and get the same products, in the same order and at the same prices. Standard library
only.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


SEED = 233
"""Seed of everything that is drawn: prices, price limits, and the order of the goals."""
_NO_PRICE = 100.0


class ProductsError(Exception):
    """The files are missing or not what they should be."""


@dataclass(frozen=True, slots=True)
class Review:
    """A customer's opinion."""

    title: str
    score: str
    body: str


@dataclass(frozen=True, slots=True)
class ShoppingRequest:
    """A wish that this product fulfils."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Option values; empty in a made request, which is about every combination of them."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product; ``asin`` is its number."""

    asin: str
    title: str
    description: str
    bullet_points: tuple[str, ...]
    price: float
    price_tag: str
    rating: str
    reviews: tuple[Review, ...]
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str
    searched: str
    """The text that a search looks at."""
    made_request: ShoppingRequest | None
    human_requests: tuple[ShoppingRequest, ...]


def read_products(folder: Path) -> list[Product]:
    """Return all products of a folder in their order. Raises ProductsError."""
    documents, instructions = _only(folder, "documents*.jsonl*"), _only(folder, "items_ins*.json")
    opened = gzip.open if documents.suffix == ".gz" else open
    try:
        made = json.loads(instructions.read_bytes())
        with opened(documents, "rt", encoding="utf-8") as lines:
            drawn = random.Random(SEED)
            return [_product(json.loads(line), made, drawn) for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProductsError(f"the products of {folder} cannot be read: {error!r}") from error


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ProductsError(f"{folder} must have one file {pattern}; it has {len(found)}")
    return found[0]


def _product(document: dict[str, Any], made: dict[str, Any], drawn: random.Random) -> Product:
    raw = document["product"]
    pricing = raw["pricing"] or [_NO_PRICE]
    request = made.get(document["id"], {})
    attributes = tuple(request.get("instruction_attributes") or ())
    return Product(
        asin=document["id"],
        title=raw["Title"],
        description=raw["Description"] or "",
        bullet_points=tuple(raw["BulletPoints"]),
        price=drawn.uniform(pricing[0], pricing[1]) if len(pricing) > 1 else pricing[0],
        price_tag=raw["Price"],
        rating=str(raw["Rating"]),
        reviews=tuple(_review(each) for each in raw["Reviews"]),
        options={name: tuple(values) for name, values in raw["options"].items()},
        attributes=tuple(raw["Attributes"]),
        category=raw["category"],
        query=raw["query"],
        product_category=raw["product_category"],
        searched=document["contents"],
        made_request=ShoppingRequest(request["instruction"], attributes)
        if request.get("instruction")
        else None,
        human_requests=tuple(_human_request(each) for each in raw.get("instructions", ())),
    )


def _review(raw: dict[str, Any]) -> Review:
    return Review(str(raw.get("title", "")), str(raw.get("score", "")), str(raw.get("body", "")))


def _human_request(raw: dict[str, Any]) -> ShoppingRequest:
    attributes, options = raw["instruction_attributes"], raw["instruction_options"]
    return ShoppingRequest(raw["instruction"], tuple(attributes), tuple(options))
