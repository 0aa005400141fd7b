from itertools import pairwise

import pytest

from sandbox_service.environments.code.box.shaping import TERMS, Milestones, StepFacts, parse_weights, shaped
from sandbox_service.environments.shared.box.tool_results import ToolResult

NOTHING = Milestones()
WELL = ToolResult("", succeeded=True, executed=True)
BADLY = ToolResult("", succeeded=False, executed=True)
EDIT = ToolResult("", succeeded=True)


def term(
    name: str,
    results: tuple[ToolResult, ...] = (),
    before: Milestones = NOTHING,
    after: Milestones = NOTHING,
    characters: int = 0,
) -> float:
    return TERMS[name](StepFacts(results, before, after, characters))


def test_execution_success_is_the_share_of_good_executions() -> None:
    assert term("execution_success", (WELL, BADLY, EDIT)) == 0.5
    assert term("execution_success", (EDIT,)) == 0


def test_file_made_pays_once() -> None:
    made = Milestones(file_made=True)
    assert term("file_made", after=made) == 1
    assert term("file_made", before=made, after=made) == 0


def test_progress_sums_to_what_was_reached() -> None:
    way = [Milestones(), Milestones(executed=True), Milestones(executed=True), Milestones(True, True, True)]
    assert sum(term("progress", before=a, after=b) for a, b in pairwise(way)) == pytest.approx(1)


def test_length_is_a_bounded_cost() -> None:
    assert term("length", characters=1000) == -0.25
    assert term("length", characters=10**6) == -1


def test_only_named_terms_are_on_and_weighted() -> None:
    facts = StepFacts((WELL,), Milestones(), Milestones(executed=True), 4000)
    assert shaped({}, facts) == {}
    assert shaped({"execution_success": 0.1, "length": 0.5}, facts) == {
        "execution_success": 0.1,
        "length": -0.5,
    }


def test_weights_are_read() -> None:
    assert parse_weights(None) == {}
    assert parse_weights({"length": 1}) == {"length": 1.0}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "must be an object"),
        ({"luck": 1}, "no term 'luck'"),
        ({"length": "1"}, "finite number"),
        ({"length": True}, "finite number"),
        ({"length": float("inf")}, "finite number"),
        ({"length": 10**400}, "finite number"),
    ],
)
def test_weights_without_sense_are_refused(given: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_weights(given)
