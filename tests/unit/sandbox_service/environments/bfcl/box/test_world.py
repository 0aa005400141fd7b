"""A checker that fails is at fault only if it fails without what the agent did, too."""

import pytest

CATEGORIES = ("simple_python", "irrelevance", "live_parallel", "multi_turn_base", "memory_kv")


@pytest.mark.parametrize("category", CATEGORIES)
def test_an_untouched_world_has_an_answer_that_the_checkers_see(play, catalog, category) -> None:
    episode = play(catalog.task_ids(category)[0])
    (untouched,) = episode.world.untouched(episode.payload.task)
    assert untouched.dialogue is not episode.world.dialogue
    verdict = untouched.evaluate({}, episode.payload.grading)
    assert verdict.score == float(category == "irrelevance")
    assert "no_answer" not in str(verdict.details["error_type"])


def test_ground_truth_of_another_form_is_at_fault_without_the_agent(play, catalog) -> None:
    episode = play(catalog.task_ids("multi_turn_base")[0])
    (untouched,) = episode.world.untouched(episode.payload.task)
    with pytest.raises(TypeError):
        untouched.evaluate({}, {"truth": 7})
