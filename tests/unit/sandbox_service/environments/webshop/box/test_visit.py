"""Pages and clicks of one visit."""

import copy

import pytest

from sandbox_service.environments.webshop.box.products import Review
from sandbox_service.environments.webshop.box.visit import PageKind, Visit
from tests.harness.webshop_products import Shelf, product

MUG = product("B000000001")
SHELF = Shelf(*(product(f"B{number:09d}") for number in range(1, 24)))


def on_item(**settings):
    visit = Visit("Find me a mug", **settings)
    visit.search(SHELF, "mug")
    assert visit.click(SHELF, "b000000001")
    return visit


def test_a_visit_begins_at_the_search_bar():
    visit = Visit("Find me a mug")
    assert visit.text(SHELF) == "WebShop [SEP] Instruction: [SEP] Find me a mug [SEP] Search"
    assert visit.clickables(SHELF) == ["search"]
    assert not visit.click(SHELF, "search")


def test_results_list_ten_products_a_page():
    visit = Visit("Find me a mug")
    visit.search(SHELF, "mug")
    parts = visit.text(SHELF).split(" [SEP] ")
    head = ["Instruction:", "Find me a mug", "Back to Search", "Page 1 (Total results: 23)", "Next >"]
    assert parts[:8] == [*head, "B000000001", "Stoneware Mug with Handle", "$12.5"]
    assert len(parts) == 5 + 10 * 3
    assert visit.clickables(SHELF)[:3] == ["back to search", "next >", "b000000001"]


def test_pages_are_turned_forth_and_back():
    visit = Visit("Find me a mug")
    visit.search(SHELF, "mug")
    assert not visit.click(SHELF, "< prev")
    assert visit.click(SHELF, "next >")
    assert visit.click(SHELF, "next >")
    assert visit.clickables(SHELF)[2:] == ["next >", "b000000021", "b000000022", "b000000023"]
    assert visit.click(SHELF, "< prev")
    assert "Page 2 (Total results: 23)" in visit.text(SHELF)


def test_an_item_shows_options_facts_and_buttons():
    parts = on_item().text(SHELF).split(" [SEP] ")
    assert parts[2:] == [
        *("Back to Search", "< Prev", "color", "red", "blue", "size", "small", "large"),
        *("Stoneware Mug with Handle", "Price: $12.5", "Rating: N.A."),
        *("Description", "Features", "Reviews", "Buy Now"),
    ]


def test_the_attributes_page_is_there_when_asked_for():
    visit = on_item(show_attributes=True)
    assert "Attributes" in visit.text(SHELF)
    assert visit.click(SHELF, "attributes")
    assert "lead free" in visit.text(SHELF)
    assert not on_item().click(SHELF, "attributes")


@pytest.mark.parametrize(
    ("button", "text"), [("description", "A mug."), ("features", "Dishwasher safe [SEP] Holds 300 ml")]
)
def test_pages_below_an_item_have_its_texts_and_lead_back(button, text):
    visit = on_item()
    visit.click(SHELF, "red")
    assert visit.click(SHELF, button)
    assert visit.text(SHELF).endswith(f"Back to Search [SEP] < Prev [SEP] {text}")
    assert visit.clickables(SHELF) == ["back to search", "< prev"]
    assert visit.click(SHELF, "< prev")
    assert (visit.page, visit.options) == (PageKind.ITEM, {"color": "red"})


def test_reviews_are_quoted():
    shelf = Shelf(product(reviews=(Review("Fine", "5.0", "Keeps tea warm."),)))
    visit = Visit("Find me a mug")
    visit.search(shelf, "mug")
    visit.click(shelf, "b000000001")
    visit.click(shelf, "reviews")
    assert visit.text(shelf).endswith('"Fine" [SEP] 5.0 [SEP] Keeps tea warm.')


def test_an_option_is_chosen_and_chosen_again():
    visit = on_item()
    for value in ("red", "large", "blue"):
        assert visit.click(SHELF, value)
    assert visit.options == {"color": "blue", "size": "large"}


def test_a_value_of_two_options_is_taken_for_the_last():
    shelf = Shelf(product(options={"color": ("red",), "lid": ("red",)}))
    visit = Visit("Find me a mug")
    visit.search(shelf, "mug")
    visit.click(shelf, "b000000001")
    visit.click(shelf, "red")
    assert visit.options == {"lid": "red"}


def test_options_are_forgotten_on_the_way_back_to_the_results():
    visit = on_item()
    visit.click(SHELF, "red")
    visit.click(SHELF, "< prev")
    assert (visit.page, visit.options) == (PageKind.RESULTS, {})


def test_back_to_search_leads_to_the_search_bar_from_everywhere():
    visit = on_item()
    visit.click(SHELF, "features")
    assert visit.click(SHELF, "back to search")
    assert visit.page is PageKind.SEARCH


def test_what_the_page_does_not_have_cannot_be_clicked():
    visit = on_item()
    before = copy.deepcopy(visit)
    assert not visit.click(SHELF, "green")
    assert not visit.click(SHELF, "b000000002")
    assert visit == before


def test_buying_ends_the_visit():
    visit = on_item()
    assert visit.click(SHELF, "buy now")
    assert visit.page is PageKind.END
    assert visit.clickables(SHELF) == []


def test_a_search_without_results_says_so():
    shelf = Shelf()
    visit = Visit("Find me a mug")
    visit.search(shelf, "zeppelin")
    assert "Page 1 (Total results: 0)" in visit.text(shelf)
