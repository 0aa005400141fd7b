"""Goals as tasks: ids, splits, payloads and references."""

from pathlib import Path

import pytest

from sandbox_service.config import WebshopConfig
from sandbox_service.environments.base import Provisions
from sandbox_service.environments.webshop.service.catalog import WebshopCatalog
from sandbox_service.errors import ServiceError
from tests.harness.webshop_products import raw_product, write_products

HUMAN = {"instruction": "a red mug", "instruction_attributes": ["lead free"], "instruction_options": ["red"]}


@pytest.fixture
def catalog(tmp_path: Path) -> WebshopCatalog:
    documents = [raw_product(f"B{number}", instructions=[HUMAN]) for number in range(10)]
    made = {
        f"B{number}": {"instruction": "Find me mugs", "instruction_attributes": ["lead free"]}
        for number in range(10)
    }
    write_products(tmp_path, documents, made)
    return WebshopCatalog(WebshopConfig(max_steps=7), Provisions(tmp_path, "d", operator_data=tmp_path))


def test_a_small_set_gives_a_fifth_each_to_test_and_eval(catalog):
    sizes = {split.name: split.size for split in catalog.describe().splits}
    assert sizes == {"test": 4, "eval": 4, "train": 12, "human": 10, "all": 30}
    assert catalog.task_ids("test")[0] == catalog.task_ids("all")[0] == "synthetic-0000"


def test_splits_share_no_task(catalog):
    parts = [catalog.task_ids(split) for split in ("test", "eval", "train", "human")]
    assert len(set().union(*parts)) == sum(map(len, parts)) == 30


def test_a_task_holds_its_goal_and_no_grading(catalog):
    payload = catalog.payload("human-00")
    assert payload.grading == {}
    assert payload.max_steps == payload.task["max_steps"] == 7
    assert payload.task["category"] == "garden"
    assert payload.task["goal"]["options"] == [["", "red"]]


def test_the_reference_buys_the_goals_own_product(catalog):
    asin = catalog.payload("human-00").task["goal"]["asin"]
    actions = [message["content"] for message in catalog.reference("human-00")]
    assert actions == ["search[Stoneware Mug]", f"click[{asin.lower()}]", "click[red]", "click[buy now]"]


def test_workers_are_shared_unless_the_operator_wants_one_each(tmp_path):
    provisions = Provisions(tmp_path, "d")
    shared, alone = (
        WebshopCatalog(WebshopConfig(many_per_worker=many), provisions) for many in (True, False)
    )
    assert (shared.spec.many_per_worker, alone.spec.many_per_worker) == (True, False)


def test_data_that_cannot_be_read_is_said_when_it_is_needed(tmp_path):
    catalog = WebshopCatalog(WebshopConfig(), Provisions(tmp_path, "d", operator_data=tmp_path))
    with pytest.raises(ServiceError, match=r"webshop: .* must have one file documents"):
        catalog.describe()
