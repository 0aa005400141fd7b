"""Write synthetic products in the format in which WebShop's are distributed, so that one reader reads both.

Run by ``sandbox-service envs setup`` with the folders of packages and data as its last arguments.
"""

from __future__ import annotations

import gzip
import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_PRODUCTS = Path(__file__).resolve().parents[1] / "data" / "products"


def prepare(data: Path) -> None:
    """Write both files of the product set."""
    products: list[JsonObject] = []
    for file in sorted(_PRODUCTS.glob("*.toml")):
        entries = tomllib.loads(file.read_text(encoding="utf-8"))["product"]
        products += [_product(entry, file.stem) for entry in entries]
    # Categories alternate, as in a shuffled set; the numbers follow from the place.
    products.sort(key=lambda product: product["name"])
    instructions: JsonObject = {}
    documents: list[str] = []
    for number, product in enumerate(products):
        asin = f"B0SHOP{number:04d}"
        instructions[asin] = product.pop("goal")
        document = {"id": asin, "contents": _contents(product), "product": {"asin": asin, **product}}
        documents.append(json.dumps(document, ensure_ascii=False) + "\n")
    (data / "documents.jsonl.gz").write_bytes(gzip.compress("".join(documents).encode(), mtime=0))
    (data / "items_ins.json").write_text(json.dumps(instructions, ensure_ascii=False), encoding="utf-8")


def _product(entry: JsonObject, category: str) -> JsonObject:
    price = [float(each) for each in entry["price"]]
    wanted, attributes = entry["wanted"], entry["attributes"]
    product = {
        "name": entry["title"],
        "Title": entry["title"],
        "Description": entry["description"],
        "BulletPoints": entry["points"],
        "pricing": price,
        "Price": " to ".join(f"${each}" for each in price),
        "Rating": "N.A.",
        "Reviews": entry.get("reviews", []),
        "options": entry.get("options", {}),
        "Attributes": attributes,
        "category": category,
        "query": entry["query"],
        "product_category": entry["path"],
        "goal": {
            "attributes": attributes,
            "instruction": f"Find me {', '.join(wanted)} {entry['query']}",
            "instruction_attributes": wanted,
        },
    }
    if "asked" in entry:
        product["instructions"] = [
            {
                "instruction": each["text"],
                "instruction_attributes": each["attributes"],
                "instruction_options": each["options"],
            }
            for each in entry["asked"]
        ]
    return product


def _contents(product: JsonObject) -> str:
    """Return the text that is searched: title, description, first bullet point and options, in lower case."""
    options = [f"{name}: {', '.join(values)}" for name, values in product["options"].items()]
    first = product["BulletPoints"][0] if product["BulletPoints"] else ""
    parts = (product["Title"], product["Description"], first, ", and ".join(options))
    return " ".join(parts).lower()


if __name__ == "__main__":
    prepare(Path(sys.argv[-1]))
