from typing import Any

import pytest

from sandbox_service.environments.reasoning_gym.box.judges import JUDGES


def entry(answer: str = "", **metadata: Any) -> dict[str, Any]:
    return {"question": "?", "answer": answer, "metadata": metadata}


@pytest.mark.parametrize(
    ("answer", "correct"),
    [
        ("(25 - 7) * 3", True),
        ("3 * (25 - 7) = 54", True),
        ("54", False),
        ("25 + 25 + 7 - 3", False),
        ("25 + 29", False),
        ("(25 - 7) * 3 * 1", False),
        ("(25 - 7) * 3 + 3 - 3", False),
        ("__import__('os').abort()", False),
        ("9**9**9**9", False),
        ("", False),
    ],
)
def test_countdown_uses_each_number_once_and_reaches_the_target(answer: str, correct: bool) -> None:
    assert JUDGES["countdown"](entry(numbers=[3, 25, 7], target=54), answer) is correct


@pytest.mark.parametrize(
    ("answer", "correct"), [("(6 - 2) * (7 - 1)", True), ("8 * 3 * 1 * 1", False), ("24", False)]
)
def test_24_is_made_of_the_four_numbers_of_the_question(answer: str, correct: bool) -> None:
    assert JUDGES["puzzle24"](entry(numbers=[1, 2, 6, 7]), answer) is correct


@pytest.mark.parametrize("name", ["binary_matrix", "spiral_matrix", "string_insertion"])
def test_white_space_does_not_count_and_anything_else_does(name: str) -> None:
    stored = entry("0 1\n1 0")
    assert JUDGES[name](stored, " 0  1 \n1 0\n")
    for wrong in ("0 1 1 0", "[[0, 1], [1, 0]]", "", "0 1\n1 1"):
        assert not JUDGES[name](stored, wrong)


def test_any_of_the_boards_that_solve_the_puzzle_is_right() -> None:
    stored = entry("Q _\n_ Q", valid_answers=["Q _\n_ Q", "_ Q\nQ _"])
    assert JUDGES["n_queens"](stored, "_ Q\nQ _")
    assert not JUDGES["n_queens"](stored, "Q _\nQ _")


@pytest.mark.parametrize(
    ("answer", "correct"), [("True", True), ("true.", True), ("False", False), ("zzz", False)]
)
def test_a_word_is_the_stored_one(answer: str, correct: bool) -> None:
    assert JUDGES["game_of_life_halting"](entry("True"), answer) is correct
