"""Arguments on their way over the pipe."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from enum import IntEnum

import pytest

from sandbox_service.environments.appworld.box.values import decode, encode


class Level(IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()


def carried(value: object) -> object:
    return decode(json.loads(json.dumps(encode(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -7,
        2**80,
        1.5,
        float("inf"),
        "",
        "é\n",
        [],
        [1, [2]],
        {},
        {"a": {"l": [1]}},
        {"d": {"o": 1}},
    ],
    ids=repr,
)
def test_what_json_has_stays_what_it_is(value: object) -> None:
    assert carried(value) == value
    assert type(carried(value)) is type(value)


def test_keys_that_are_no_text_stay_what_they_are() -> None:
    assert carried({1: "a", None: "b", (1, 2): "c"}) == {1: "a", None: "b", (1, 2): "c"}


@pytest.mark.parametrize(
    ("value", "plain"), [((1, 2), [1, 2]), (Level.HIGH, 3), (Name("x"), "x")], ids=["tuple", "enum", "text"]
)
def test_relatives_arrive_as_the_plain_value(value: object, plain: object) -> None:
    assert carried(value) == plain
    assert type(carried(value)) is type(plain)


@pytest.mark.parametrize(
    "value",
    [datetime.date(2023, 5, 18), {1, 2}, Decimal("1.5"), print, b"x"],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_keeps_the_name_of_its_type_and_its_text(value: object) -> None:
    arrived = carried(value)
    assert str(arrived) == str(value)
    with pytest.raises(TypeError, match=f"Object of type {type(value).__name__} is not JSON serializable"):
        json.dumps(arrived)


@pytest.mark.parametrize(
    "data",
    [
        [],
        [1],
        {},
        {"l": 1},
        {"d": [1]},
        {"d": [[1]]},
        {"o": ["a"]},
        {"x": 1},
        {"l": [], "d": []},
        {"l": [[1]]},
    ],
    ids=repr,
)
def test_what_was_not_encoded_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="no "):
        decode(data)
