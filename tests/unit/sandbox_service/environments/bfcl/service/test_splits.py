from collections import Counter

import pytest

from sandbox_service.environments.bfcl.service.splits import SUBTYPES, make_splits

CATEGORIES = {
    name: tuple(f"{name}_{number}" for number in range(10 + 7 * place))
    for place, name in enumerate(SUBTYPES["all"])
}


def category_of(task_id):
    return task_id.rpartition("_")[0]


@pytest.fixture
def splits():
    return make_splits(CATEGORIES, 0.2, seed=3)


def test_there_is_a_split_for_each_category_and_sub_type(splits):
    assert set(CATEGORIES) <= set(splits)
    assert {
        "all",
        "all_scoring",
        "multi_turn",
        "single_turn",
        "live",
        "non_live",
        "non_python",
        "python",
    } <= set(splits)
    assert splits["multi_turn_base"] == CATEGORIES["multi_turn_base"]


@pytest.mark.parametrize("name", ["", *(f"{name}_" for name in (*CATEGORIES, *SUBTYPES))])
def test_training_and_validation_part_a_category_or_sub_type(splits, name):
    train, validation = splits[f"{name}train"], splits[f"{name}validation"]
    assert not set(train) & set(validation)
    whole = splits[name.removesuffix("_") or "all_scoring"]
    assert sorted([*train, *validation]) == sorted(whole)


def test_public_clients_find_the_validation_tasks_under_their_names(splits):
    assert splits["dev"] == splits["val"] == splits["validation"] != ()


def test_each_category_has_its_share_of_the_validation_tasks(splits):
    counts = Counter(map(category_of, splits["validation"]))
    assert counts == {name: max(1, round(0.2 * len(ids))) for name, ids in CATEGORIES.items()}


def test_a_task_is_in_the_same_part_of_every_split(splits):
    for name in (*CATEGORIES, *SUBTYPES):
        assert set(splits[f"{name}_train"]) <= set(splits["train"])
        assert set(splits[f"{name}_validation"]) <= set(splits["validation"])


def test_parts_are_shuffled_over_their_categories(splits):
    first = {category_of(task_id) for task_id in splits["train"][:60]}
    assert len(first) > 8


def test_a_seed_is_one_order_and_another_seed_another(splits):
    assert make_splits(CATEGORIES, 0.2, seed=3) == splits
    assert make_splits(CATEGORIES, 0.2, seed=4)["train"] != splits["train"]


def test_a_category_of_one_task_is_for_training():
    splits = make_splits({name: ("one",) if name == "live_relevance" else () for name in CATEGORIES}, 0.2, 0)
    assert (splits["train"], splits["validation"]) == (("one",), ())


def test_no_validation_task_repeats_a_training_task(splits):
    (held_out, *other), (trained, *_) = splits["live_simple_validation"], splits["live_simple_train"]
    after = make_splits(CATEGORIES, 0.2, 3, repeated=[(held_out, trained), (*other[:2],)])
    assert set(after["validation"]) == set(splits["validation"]) - {held_out}
    assert {held_out, trained} <= set(after["train"])


@pytest.mark.parametrize("family", ["multi_turn", "memory"])
def test_a_held_out_conversation_is_held_out_under_every_condition(family):
    categories = {name: [f"{name}_{number}" for number in range(200)] for name in SUBTYPES[family]}
    splits = make_splits(categories | {name: () for name in CATEGORIES if name not in categories}, 0.1, 3)
    held_out = Counter(task_id.rpartition("_")[2] for task_id in splits[f"{family}_validation"])
    assert len(held_out) == 20
    assert set(held_out.values()) == {len(categories)}
