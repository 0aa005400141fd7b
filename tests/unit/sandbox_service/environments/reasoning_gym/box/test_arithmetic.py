from fractions import Fraction

import pytest

from sandbox_service.environments.reasoning_gym.box.arithmetic import ArithmeticTextError, read_arithmetic


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("8 / 3 / 2", Fraction(4, 3)),
        ("10 - 4 - 3", 3),
        ("-(1 + 2) * -2", 6),
        ("2*-3", -6),
        ("6 \N{MULTIPLICATION SIGN} 4 \N{DIVISION SIGN} 2 \N{MINUS SIGN} 1", 11),
        (" \t1\n+ 1 ", 2),
    ],
)
def test_expressions_have_their_exact_value(text: str, value: Fraction) -> None:
    assert read_arithmetic(text).value == value


def test_numbers_and_operators_are_told_as_they_were_written() -> None:
    found = read_arithmetic("(4 + 4) * 3 - 0")
    assert found.numbers == (4, 4, 3, 0)
    assert found.operators == {"+", "*", "-"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "1 +",
            "+ 1",
            "1 1",
            "(1",
            "1)",
            "()",
            "1 / 0",
            "1 / (2 - 2)",
            "2 ** 3",
            "9**9**9**9",
            "1.5",
        ),
        *("1e9", "1_000", "0x10", "1 if 1 else 2", "__import__('os')", "abs(1)", "1, 2", "٣", "1;2", "5 % 3"),
        *("(" * 10_000 + "1", "-" * 10_000 + "1", "1+" * 10_000, "1" * 10_000, "999999999*" * 150 + "1"),
    ],
)
def test_everything_else_is_no_arithmetic(text: str) -> None:
    with pytest.raises(ArithmeticTextError):
        read_arithmetic(text)
