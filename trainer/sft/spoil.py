"""Seeded ways to spoil demonstrations, so that there is something left to learn from reward.

    wrong_operator   the program calculates with another operator, and its result is submitted
    wrong_digit      the program calculates with another number, and its result is submitted
    unprinted        the program keeps its result to itself, and nothing is submitted
    wrong_answer     the program is right, and another answer is submitted
    hasty            nothing is done, and nothing is submitted

The first three are for programs that print a sum; ``hasty`` is for demonstrations that leave their answer in
a file. A model that imitates these fails as often, in ways that it can find out of. For demos and tests.
"""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .notation import SUBMIT, Call, call_in, program, with_call

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.messages import Message

    from .demonstrations import Demonstration


_PRINTED = re.compile(r"print\((.+)\)\s*")
_SWAPPED = str.maketrans("+-*", "-*+")
_RESULTS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_LEAST_ANSWER, _MOST_ANSWER = -99, 9999


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two messages: a program, and the answer that is submitted after it."""

    running: Message
    submitting: Message
    right: JsonValue

    def said(self, code: str, submit: Call) -> tuple[Message, ...]:
        return with_call(self.running, program(code)), with_call(self.submitting, submit)


def spoil(demonstrations: Iterable[Demonstration], share: float, seed: int) -> tuple[Demonstration, ...]:
    """The demonstrations in their order, about ``share`` of them spoilt.

    The same seed spoils the same ones in the same way. One that no way fits stays as it is.
    """
    return tuple(
        _perhaps(each, share, random.Random(f"{seed} {index} {each.task_id}"))
        for index, each in enumerate(demonstrations)
    )


def _perhaps(demonstration: Demonstration, share: float, dice: random.Random) -> Demonstration:
    if dice.random() >= share:
        return demonstration
    spoilt = {name: way(demonstration, dice) for name, way in WAYS.items()}
    fitting = [(name, messages) for name, messages in spoilt.items() if messages]
    if not fitting:
        return demonstration
    name, messages = fitting[int(dice.random() * len(fitting))]
    return replace(demonstration, messages=messages, spoilt=name)


def _wrong_operator(demonstration: Demonstration, _: random.Random) -> tuple[Message, ...] | None:
    pair, expression = _sum_of(demonstration)
    if pair is None:
        return None
    return _calculated(pair, expression.translate(_SWAPPED))


def _wrong_digit(demonstration: Demonstration, dice: random.Random) -> tuple[Message, ...] | None:
    pair, expression = _sum_of(demonstration)
    if pair is None:
        return None
    places = [place for place, letter in enumerate(expression) if letter.isdigit()]
    place = places[int(dice.random() * len(places))]
    digits = [digit for digit in "123456789" if digit != expression[place]]
    digit = digits[int(dice.random() * len(digits))]
    return _calculated(pair, expression[:place] + digit + expression[place + 1 :])


def _unprinted(demonstration: Demonstration, _: random.Random) -> tuple[Message, ...] | None:
    pair, expression = _sum_of(demonstration)
    return None if pair is None else pair.said(f"x={expression}", Call(SUBMIT))


def _wrong_answer(demonstration: Demonstration, dice: random.Random) -> tuple[Message, ...] | None:
    *before, last = demonstration.messages
    call = call_in(last)
    right = call.arguments.get("answer") if call is not None and call.tool == SUBMIT else None
    if right is None:
        return None
    wrong = _LEAST_ANSWER + int(dice.random() * (_MOST_ANSWER - _LEAST_ANSWER))
    wrong += str(wrong) == str(right)
    return (*before, with_call(last, _submitted(wrong, right)))


def _hasty(demonstration: Demonstration, _: random.Random) -> tuple[Message, ...] | None:
    *before, last = demonstration.messages
    call = call_in(last)
    leaves_a_file = call is not None and call.tool == SUBMIT and "answer" not in call.arguments
    return (last,) if before and leaves_a_file else None


WAYS: Mapping[str, Callable[[Demonstration, random.Random], tuple[Message, ...] | None]] = {
    "wrong_operator": _wrong_operator,
    "wrong_digit": _wrong_digit,
    "unprinted": _unprinted,
    "wrong_answer": _wrong_answer,
    "hasty": _hasty,
}
"""Each gives the spoilt messages, or None where it does not fit."""


def _sum_of(demonstration: Demonstration) -> tuple[_Pair | None, str]:
    """The program and the answer of a demonstration that prints a sum and submits it, and the sum."""
    if len(demonstration.messages) != 2:
        return None, ""
    running, submitting = demonstration.messages
    first, second = call_in(running), call_in(submitting)
    code = first.code if first is not None else None
    if code is None or second is None or second.tool != SUBMIT or "answer" not in second.arguments:
        return None, ""
    printed = _PRINTED.fullmatch(code)
    if printed is None or _value(printed[1]) is None or not re.search(r"\d.*[-+*]", printed[1]):
        return None, ""
    return _Pair(running, submitting, second.arguments["answer"]), printed[1]


def _calculated(pair: _Pair, expression: str) -> tuple[Message, ...] | None:
    """Print another sum, and submit what it comes to."""
    value = _value(expression)
    if value is None:
        return None
    return pair.said(f"print({expression})", _submitted(value, pair.right))


def _submitted(value: int, right: JsonValue) -> Call:
    """Submit a number in the form that the right answer has."""
    return Call(SUBMIT, {"answer": str(value) if isinstance(right, str) else value})


def _value(expression: str) -> int | None:
    """What a sum of whole numbers comes to; None for anything else."""
    try:
        return _worth(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _worth(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _RESULTS:
            return _RESULTS[type(sign)](_worth(left), _worth(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worth(operand)
    raise ValueError("not a sum of whole numbers")
