"""WebShop in a real runner: references, random purchases, malformed actions, copies, and what is told."""

import json
import random
import re
from collections.abc import Iterator
from statistics import mean

import pytest

from sandbox_service.environments.webshop.box.products import read_products
from sandbox_service.environments.webshop.service.catalog import WebshopCatalog
from sandbox_service.wire.frames import Op
from tests.harness.runner_box import RunnerBox, uid_drop_missing
from tests.harness.webshop import (
    Episode,
    RefusedError,
    full_catalog,
    own_catalog,
    reference,
    shop_box,
)

SAMPLE = 200


@pytest.fixture(scope="module")
def catalog() -> WebshopCatalog:
    return own_catalog()


@pytest.fixture(scope="module")
def box(catalog: WebshopCatalog) -> Iterator[RunnerBox]:
    with shop_box(catalog) as started:
        yield started


@pytest.fixture(scope="module")
def full() -> Iterator[tuple[RunnerBox, WebshopCatalog]]:
    catalog = full_catalog()
    with shop_box(catalog) as started:
        yield started, catalog


@pytest.fixture
def episode(box: RunnerBox, catalog: WebshopCatalog) -> Iterator[Episode]:
    made = Episode.create(box, catalog, "synthetic-0000")
    yield made
    made.release()


def score(box: RunnerBox, catalog: WebshopCatalog, task_id: str, actions: list[str]) -> float:
    episode = Episode.create(box, catalog, task_id)
    episode.play(actions)
    found: float = episode.verdict()["score"]
    episode.release()
    return found


def test_every_reference_earns_one(box: RunnerBox, catalog: WebshopCatalog) -> None:
    tasks = catalog.task_ids("all")
    assert len(tasks) > 200
    scores = {task_id: score(box, catalog, task_id, reference(catalog, task_id)) for task_id in tasks}
    assert [task_id for task_id in tasks if scores[task_id] != 1] == []


def test_the_reward_comes_with_the_purchase_and_ends_the_episode(
    catalog: WebshopCatalog, episode: Episode
) -> None:
    *before, buy = reference(catalog, "synthetic-0000")
    for action in before:
        episode.act(action)
        assert (episode.said["reward"], episode.said["terminated"]) == (0.0, False)
        assert episode.verdict()["score"] == 0.0
    bought = episode.act(buy)
    assert bought == "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] 1.0"
    assert (episode.said["reward"], episode.said["terminated"]) == (1.0, True)
    verdict = episode.verdict()
    assert (verdict["score"], verdict["success"]) == (1.0, True)


def test_the_right_product_without_options_earns_a_part(catalog: WebshopCatalog, episode: Episode) -> None:
    search, item, *_, buy = reference(catalog, "synthetic-0000")
    episode.play([search, item, buy])
    verdict = episode.verdict()
    assert 0 < verdict["score"] < 1
    assert not verdict["success"]
    assert episode.verdict(sparse=True)["score"] == 0.0


MALFORMED = {
    "": "act needs a text",
    "buy it": "An action is search[words] or click[name].",
    "click": "An action is search[words] or click[name].",
    "search[ ]": "A search needs words",
    "click[zeppelin]": "There is nothing called 'zeppelin' to click on this page.",
    "click[search]": "There is nothing called 'search'",
    "click[buy now]": "There is nothing called 'buy now'",
    "jump[up]": "An action is search[words] or click[name].",
}


@pytest.mark.parametrize(("action", "answer"), MALFORMED.items(), ids=[repr(each) for each in MALFORMED])
def test_what_is_wrong_with_an_action_is_told_above_the_page(
    episode: Episode, action: str, answer: str
) -> None:
    text = episode.act(action)
    assert text.startswith(answer)
    assert not episode.said["terminated"]
    if action:
        assert "WebShop [SEP] Instruction:" in text


@pytest.mark.parametrize(
    "message",
    [
        "Search[Mug]",
        "Thought: look around.\nAction: search[mug]",
        '<tool_call>{"name": "act", "arguments": {"action": "search[mug]"}}</tool_call>',
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "function": {"name": "act", "arguments": '{"action": "search[mug]"}'}}
            ],
        },
    ],
    ids=["plain", "react", "tagged", "native"],
)
def test_actions_are_read_in_every_notation(episode: Episode, message: object) -> None:
    assert "Page 1 (Total results: " in episode.act(message)  # type: ignore[arg-type]


def test_the_opening_and_the_pages_say_what_can_be_done(catalog: WebshopCatalog, episode: Episode) -> None:
    task = catalog.payload("synthetic-0000").task
    instruction = task["goal"]["instruction"]  # type: ignore[index, call-overload]
    assert episode.info["instruction_text"] == instruction
    assert episode.info["category"] == task["category"]
    assert episode.info["has_search_bar"] is True
    (offered,) = episode.info["available_actions"]
    assert offered == f"search[{instruction.partition(', and price lower')[0]}]"
    episode.act(offered)
    assert episode.info["has_search_bar"] is False
    assert episode.info["available_actions"][:2] == ["click[back to search]", "click[next >]"]


def test_neither_opening_nor_purchase_tells_the_goal(box: RunnerBox, catalog: WebshopCatalog) -> None:
    wanted, other = "synthetic-0000", "synthetic-0001"
    goal = catalog.payload(wanted).task["goal"]
    asin = goal["asin"]  # type: ignore[index, call-overload]
    assert asin != catalog.payload(other).task["goal"]["asin"]  # type: ignore[index, call-overload]
    episode = Episode.create(box, catalog, wanted)
    opening = json.dumps(episode.said)
    episode.play([step for step in reference(catalog, other) if not step.startswith("click[b0")][:1])
    episode.play(reference(catalog, other)[1:])
    assert episode.said["terminated"]
    ending = json.dumps([episode.said, episode.verdict()])
    for told in (opening, ending):
        assert asin not in told
        assert "price_limit" not in told
        assert "goal" not in told
    assert not re.search(r"attributes", ending)


def test_random_offered_actions_always_go_somewhere(box: RunnerBox, catalog: WebshopCatalog) -> None:
    choice = random.Random(7)
    for task_id in catalog.task_ids("test")[:20]:
        episode = Episode.create(box, catalog, task_id)
        for _ in range(30):
            text = episode.act(choice.choice(episode.info["available_actions"]))
            assert "nothing called" not in text
            if episode.said["terminated"]:
                break
        assert 0 <= episode.verdict()["score"] <= 1
        episode.release()


def test_a_copy_goes_its_own_way(box: RunnerBox, catalog: WebshopCatalog) -> None:
    search, item, *choices, buy = reference(catalog, "synthetic-0000")
    original = Episode.create(box, catalog, "synthetic-0000")
    original.play([search, item])
    copied = Episode(box, f"{original.name}-copy", original.said)
    reply = box.request(Op.FORK, original.name, meta={"copy_id": copied.name})
    assert reply.op is Op.REPLY, reply.body
    copied.act(buy)
    original.play([*choices, buy])
    assert copied.verdict()["score"] < original.verdict()["score"] == 1


def test_two_instances_of_one_task_share_no_page(box: RunnerBox, catalog: WebshopCatalog) -> None:
    one, two = (Episode.create(box, catalog, "synthetic-0000") for _ in range(2))
    one.play(reference(catalog, "synthetic-0000")[:2])
    assert two.act("buy").endswith("Search")
    assert two.play(reference(catalog, "synthetic-0000")).endswith("1.0")


def test_the_attributes_page_is_a_parameter(box: RunnerBox, catalog: WebshopCatalog) -> None:
    episode = Episode.create(box, catalog, "synthetic-0000", show_attrs=True)
    episode.play(reference(catalog, "synthetic-0000")[:2])
    assert "click[attributes]" in episode.info["available_actions"]


@pytest.mark.parametrize("params", [{"show_attrs": "yes"}, {"human_goals": True}], ids=["type", "name"])
def test_wrong_parameters_are_refused(
    box: RunnerBox, catalog: WebshopCatalog, params: dict[str, object]
) -> None:
    with pytest.raises(RefusedError) as refused:
        Episode.create(box, catalog, "synthetic-0000", **params)
    assert refused.value.code == "invalid_request"


@pytest.mark.parametrize("many", [True, False], ids=["many-a-worker", "one-a-worker"])
def test_the_shop_works_under_user_ids_of_its_own(catalog: WebshopCatalog, many: bool) -> None:
    if (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with shop_box(catalog, drop=True, many_per_worker=many, env_group=9999) as started:
        assert score(started, catalog, "human-00", reference(catalog, "human-00")) == 1


def test_the_full_set_has_the_official_goals_and_splits() -> None:
    catalog = full_catalog()
    sizes = {split.name: split.size for split in catalog.describe().splits}
    assert sizes == {"test": 500, "eval": 1000, "train": 5410, "human": 13, "all": 6923}
    numbers = [f"synthetic-{number:04d}" for number in range(500)]
    assert list(catalog.task_ids("test")) == numbers


def sample(catalog: WebshopCatalog) -> list[str]:
    return random.Random(1).sample(list(catalog.task_ids("train")), SAMPLE)


def test_the_right_products_of_the_full_set_earn_what_the_original_gives(
    full: tuple[RunnerBox, WebshopCatalog],
) -> None:
    box, catalog = full
    scores = [score(box, catalog, task_id, reference(catalog, task_id)) for task_id in sample(catalog)]
    assert mean(scores) > 0.98
    assert sum(each == 1 for each in scores) > 0.9 * SAMPLE
    human = [score(box, catalog, each, reference(catalog, each)) for each in catalog.task_ids("human")]
    assert human == [1.0] * 13


def test_the_right_products_of_the_full_set_without_options_earn_a_part(
    full: tuple[RunnerBox, WebshopCatalog],
) -> None:
    box, catalog = full
    plans = {task_id: reference(catalog, task_id) for task_id in sample(catalog)}
    scores = {each: score(box, catalog, each, [*plan[:2], plan[-1]]) for each, plan in plans.items()}
    for task_id, found in scores.items():
        goal = catalog.payload(task_id).task["goal"]
        attributes, options = len(goal["attributes"]), len(goal["options"])  # type: ignore[index, call-overload]
        assert found == pytest.approx((attributes + 1) / (attributes + options + 1))
    assert mean(scores.values()) == pytest.approx(0.70, abs=0.03)


def test_random_products_of_the_full_set_earn_next_to_nothing(
    full: tuple[RunnerBox, WebshopCatalog],
) -> None:
    box, catalog = full
    provisions = catalog.spec.provisions
    assert provisions is not None
    products = random.Random(2).choices(read_products(provisions.data), k=SAMPLE)
    scores = []
    for task_id, product in zip(sample(catalog), products, strict=True):
        asin = product.asin.lower()
        actions = [f"search[{product.title or product.query}]", f"click[{asin}]", "click[buy now]"]
        scores.append(score(box, catalog, task_id, actions))
    assert mean(scores) < 0.03
