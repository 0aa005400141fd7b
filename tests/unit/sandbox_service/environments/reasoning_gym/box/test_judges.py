import json
from typing import Any

import pytest

from sandbox_service.environments.reasoning_gym.box.judges import FORMS, JUDGES


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


@pytest.mark.parametrize(
    ("stored", "right", "wrong"),
    [
        ("0.1171875", ["0.1171875", ".1172", "0.11718", "15/128", "1.171875e-1"], ["0", "0.1", "0.11", "1"]),
        ("0.375", ["3/8", "0.3750", "0.375."], ["0.3", "37.5", "3", "0.375 or 0.5", "3/0", ""]),
        ("1", ["1", "1.0", "8/8", "100%"], ["0.99995", "0", "10", "1%", "100", "%"]),
        (
            "0.2734375",
            [
                "35 / 128",
                "$35/128$",
                r"\frac{35}{128}",
                r"$\dfrac{35}{128}$.",
                "27.34375%",
                r"$27.34\%$",
                "27.3437 %.",
            ],
            [
                "27.34375",
                "0.2734375%",
                "27%",
                "27.34%%",
                "27.34% or 30%",
                r"1\frac{35}{128}",
                r"\frac{35}{0}",
                "0.2734..",
            ],
        ),
        ("3.051757812e-05", ["1/32768", "0.00003", "3.05e-5"], ["0", "0.0001", "1e-99", "1e999999999"]),
        ("0.9998779297", ["0.99988", "8191/8192"], ["1", "0.9997"]),
    ],
)
def test_a_probability_is_the_stored_one_and_no_prefix_of_it(
    stored: str, right: list[str], wrong: list[str]
) -> None:
    judge = JUDGES["coin_flip"]
    assert [answer for answer in right if not judge(entry(stored), answer)] == []
    assert [answer for answer in wrong if judge(entry(stored), answer)] == []


@pytest.mark.parametrize(
    ("stored", "right", "wrong"),
    [
        (
            "1234",
            [
                "1234",
                "1,234",
                "$1,234",
                "1234.0",
                "1,234.00",
                " 1234. ",
                "$1234$",
                r"\$1,234",
                r"\boxed{1234}",
                r"\[ \boxed{\$1,234} \]",
                r"\(1234\).",
                "$1,234.$",
            ],
            [
                "1234 5",
                "5 1234",
                "1,23,4",
                "2468/2",
                "1234/1",
                r"\frac{2468}{2}",
                "1234%",
                "$1234$ or $5$",
                "$$1234",
                r"\boxed{1234}{5}",
                r"\boxed{5}\boxed{1234}",
                "1234..",
                "$",
                "$$",
                r"\boxed{}",
            ],
        ),
        (
            "-7",
            ["-7", "-7.0", "-$7", "$-7", "\N{MINUS SIGN}7", r"\$-7.00", "-$7."],
            ["7", "-7 or 7", "--7", "7-", "-$-7"],
        ),
        (
            "2.5",
            ["2.5", "$2.50", "5/2", "5 / 2", r"\frac{5}{2}", r"$\tfrac{5}{2}$"],
            ["2", "2.5 3", "2,5", "x", "", ".", r"2\frac{5}{2}", "5/2/1", "5//2", "250%"],
        ),
        ("21/2", ["10.5"], [r"2\frac{1}{2}"]),
    ],
)
def test_a_number_is_the_stored_one_and_nothing_else(stored: str, right: list[str], wrong: list[str]) -> None:
    judge = JUDGES["gsm_symbolic"]
    assert [answer for answer in right if not judge(entry(stored), answer)] == []
    assert [answer for answer in wrong if judge(entry(stored), answer)] == []


@pytest.mark.parametrize(
    "right",
    [
        "3/7",
        " 3 / 7 ",
        "$3/7$",
        "$$3/7$$",
        "3/7.",
        "$3/7.$",
        r"\frac{3}{7}",
        r"$\dfrac{3}{7}$",
        r"\tfrac{3}{7}",
        r"$ \frac {3} { 7 } $",
        r"\(\frac{3}{7}\)",
        r"\[\boxed{\frac{3}{7}}\]",
    ],
)
@pytest.mark.parametrize("more", ["", " 6/14", " or 1/2", "1", r" \frac{6}{14}", " $6/14$", "..", "}"])
def test_a_fraction_is_the_simplified_one_and_nothing_else(right: str, more: str) -> None:
    stored = entry("3/7", simplified_numerator=3, simplified_denominator=7)
    assert JUDGES["fraction_simplification"](stored, right + more) is (more == "")
    assert not JUDGES["fraction_simplification"](stored, f"{more or '6/14'} {right}")


@pytest.mark.parametrize(
    ("dataset", "stored", "right", "wrong"),
    [
        ("spell_backward", "nus", ["NUS", "n u s"], ["nus and more", "nusa", "nu", ""]),
        ("figlet_font", "GRAPHOMETER", ["graphometer"], ["GRAPHOMETER DODMAN", "GRAPHOMETRE", ""]),
        ("letter_jumble", "a New day", ["A new  day"], ["a new day and more", "a new", "new a day", ""]),
    ],
)
def test_more_than_the_stored_words_is_no_answer(
    dataset: str, stored: str, right: list[str], wrong: list[str]
) -> None:
    assert [answer for answer in right if not JUDGES[dataset](entry(stored), answer)] == []
    assert [answer for answer in wrong if JUDGES[dataset](entry(stored), answer)] == []


@pytest.mark.parametrize(
    ("stored", "right", "wrong"),
    [
        (
            "19 days",
            ["19 days", "19", "19 Days."],
            ["19 days 20 days", "19 20", "456:00", "18 days", "", "days"],
        ),
        ("08:36", ["08:36", "8:36", "08:36:00"], ["08:36 09:00", "8", "0 days, 08:36", "08:37", "-8:36"]),
        ("08:47:17.004", ["08:47:17.004"], ["08:47:17", "08:47:17.004 or 1"]),
        ("-1 days, 23:10", ["-1 days, 23:10", "-1 day,23:10:00"], ["1 days, 23:10", "-1 days", "23:10"]),
    ],
)
def test_a_duration_is_the_stored_one_and_nothing_else(
    stored: str, right: list[str], wrong: list[str]
) -> None:
    judge = JUDGES["time_intervals"]
    assert [answer for answer in right if not judge(entry(stored), answer)] == []
    assert [answer for answer in wrong if judge(entry(stored), answer)] == []


@pytest.mark.parametrize(
    ("answer", "correct"),
    [
        ("['-3.5', '0.0', '12.25']", True),
        ("[-3.5, 0, 12.250]", True),
        ("['-3.51', '0.0', '12.25']", False),
        ("['-3.5', '0.5', '12.25']", False),
        ("['-3.5', '0.0', '12.25', '12.25']", False),
        ("['0.0', '-3.5', '12.25']", False),
        ("-3.5, 0.0, 12.25", False),
        ("[[-3.5], 0, 12.25]", False),
        ("{}", False),
        ("[" * 20_000, False),
        ("", False),
    ],
)
def test_sorted_numbers_are_the_stored_ones_and_not_near_them(answer: str, correct: bool) -> None:
    assert JUDGES["number_sorting"](entry("['-3.5', '0.0', '12.25']"), answer) is correct


GRID = [[0, 1, 0], [1, 0, 0]]
TRIANGLE = {"task_type": "orthocenter"}


@pytest.mark.parametrize(
    ("dataset", "stored", "whole", "not_whole"),
    [
        (
            "word_sorting",
            entry(sorted_words=["ant", "bee"]),
            ["ant, bee", "bee,ant", "ant"],
            ["ant, bee, x", "ant, bee,", "ant, bee, ant, bee"],
        ),
        (
            "game_of_life",
            entry(json.dumps(GRID)),
            [json.dumps(GRID), "[[1,1,1],[1,1,1]]"],
            [
                json.dumps(GRID * 2),
                json.dumps([[*row, 0] for row in GRID]),
                "[[0,1,0]]",
                '[[0,1,0],"100"]',
                '{"0": [0,1,0]}',
                "0",
                "[" * 20_000,
                "",
            ],
        ),
        (
            "advanced_geometry",
            entry("(4.051, -5.487)", **TRIANGLE),
            ["(4.051, -5.487)", "4.05,-5.49"],
            ["(4.051, -5.487), x", "(4.051, -5.487), (1, 2)", "4.051, -5.487, 1", "4.051", ""],
        ),
        ("advanced_geometry", entry("2.425", task_type="incircle_radius"), ["2.425"], []),
        ("sokoban", entry("LURD"), ["LURD", "UDUD"], ["I move: LURD", "L U", "LURD\nLURD", "lurd", ""]),
        (
            "kakurasu",
            entry("1 0\n0 1"),
            ["1 0\n0 1", "[[1, 0],\n[0, 1]]"],
            ["1.5 0.5", "1 0, x", "It is 1 0"],
        ),
    ],
)
def test_a_scorer_is_asked_only_about_answers_that_it_reads_to_the_end(
    dataset: str, stored: dict[str, Any], whole: list[str], not_whole: list[str]
) -> None:
    assert [answer for answer in whole if not FORMS[dataset](stored, answer)] == []
    assert [answer for answer in not_whole if FORMS[dataset](stored, answer)] == []
