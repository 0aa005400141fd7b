"""Products as they are read from the files of a product set."""

import pytest

from sandbox_service.environments.webshop.box.products import ProductsError, ShoppingRequest, read_products
from tests.harness.webshop_products import raw_product, write_products


def test_a_product_has_its_texts_options_and_requests(tmp_path):
    human = {"instruction": "a mug.", "instruction_attributes": ["lead free"], "instruction_options": ["red"]}
    made = {"B1": {"instruction": "Find me mugs", "instruction_attributes": ["lead free"]}}
    write_products(tmp_path, [raw_product("B1", instructions=[human])], made)
    (read,) = read_products(tmp_path)
    assert read.title == "Stoneware Mug"
    assert read.options == {"color": ("red", "blue")}
    assert read.made_request == ShoppingRequest("Find me mugs", ("lead free",))
    assert read.human_requests == (ShoppingRequest("a mug.", ("lead free",), ("red",)),)


def test_a_product_without_an_instruction_is_there_and_is_nobodys_goal(tmp_path):
    write_products(tmp_path, [raw_product("B1")], {"B1": {"attributes": ["lead free"]}})
    (read,) = read_products(tmp_path)
    assert read.made_request is None


def test_a_price_range_becomes_the_same_price_at_every_reading(tmp_path):
    write_products(tmp_path, [raw_product("B1", pricing=[10.0, 20.0], Price="$10.0 to $20.0")])
    (first,), (second,) = read_products(tmp_path), read_products(tmp_path)
    assert 10 < first.price < 20
    assert first == second
    assert first.price_tag == "$10.0 to $20.0"


def test_a_product_without_a_price_costs_what_the_original_takes_it_for(tmp_path):
    write_products(tmp_path, [raw_product("B1", pricing=[])])
    (read,) = read_products(tmp_path)
    assert read.price == 100


def test_a_review_may_lack_a_title(tmp_path):
    write_products(tmp_path, [raw_product("B1", Reviews=[{"score": 5.0, "body": "Good."}])])
    (read,) = read_products(tmp_path)
    assert [(each.title, each.score, each.body) for each in read.reviews] == [("", "5.0", "Good.")]


def test_uncompressed_documents_are_read_too(tmp_path):
    write_products(tmp_path, [])
    (tmp_path / "documents_tiny.jsonl.gz").unlink()
    (tmp_path / "documents.jsonl").write_text("\n")
    assert read_products(tmp_path) == []


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ProductsError, match=r"must have one file documents\*"):
        read_products(tmp_path)


@pytest.mark.parametrize("lines", ["{", '{"id": "B1"}', '{"id": "B1", "product": 3}'])
def test_broken_documents_are_refused(tmp_path, lines):
    write_products(tmp_path, [])
    (tmp_path / "documents_tiny.jsonl.gz").unlink()
    (tmp_path / "documents.jsonl").write_text(lines)
    with pytest.raises(ProductsError, match="cannot be read"):
        read_products(tmp_path)
