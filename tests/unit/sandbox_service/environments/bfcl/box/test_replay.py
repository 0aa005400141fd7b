"""Every task of the package: its reference is graded as solved, and what is left out is missed."""

import pytest

pytestmark = pytest.mark.slow

MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
SOLVED = {
    "simple_python": 400,
    "simple_java": 98,
    "simple_javascript": 50,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "irrelevance": 240,
    "live_simple": 256,
    "live_multiple": 1050,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "live_irrelevance": 884,
    "live_relevance": 16,
    "memory_kv": 155,
    "memory_rec_sum": 155,
}
"""Of seven tasks the ground truth is accepted by its own checker in no form."""


def solved(play, catalog, task_id, reference):
    episode = play(task_id)
    outcomes = episode.all(reference)
    assert outcomes[-1].terminated
    return episode.verdict(sparse=True).score == 1.0


def without_last_calls(reference):
    """The reference with the last turn that has calls answered by talk."""
    last = max(number for number, message in enumerate(reference) if message.get("tool_calls"))
    return [*reference[:last], *reference[last + 1 :]]


@pytest.mark.parametrize("category", MULTI_TURN)
def test_each_multi_turn_reference_is_solved(play, catalog, category):
    ids = catalog.task_ids(category)
    assert [each for each in ids if not solved(play, catalog, each, catalog.reference(each))] == []


@pytest.mark.parametrize("category", MULTI_TURN)
def test_no_reference_without_its_last_calls_is_solved(play, catalog, category):
    ids = catalog.task_ids(category)
    cut = {each: without_last_calls(catalog.reference(each)) for each in ids}
    assert [each for each in ids if solved(play, catalog, each, cut[each])] == []


@pytest.mark.parametrize("category", SOLVED)
def test_the_references_of_a_category_are_solved(play, catalog, category):
    references = {each: catalog.reference(each) for each in catalog.task_ids(category)}
    known = {each: reference for each, reference in references.items() if reference}
    assert (
        sum(solved(play, catalog, each, reference) for each, reference in known.items()) == SOLVED[category]
    )
