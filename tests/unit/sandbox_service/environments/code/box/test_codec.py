import datetime
import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_service.environments.code.box.codec import MAX_DEPTH, CodecError, decode, encode


def refuse(value: object, depth: int) -> int:
    raise AssertionError(f"{value!r} was taken for an object")


def unknown(tag: object, content: object, depth: int) -> object:
    raise CodecError(f"unknown: {tag}")


def across(value: object) -> Any:
    """The value after the way through JSON text."""
    return decode(json.loads(json.dumps(encode(value, refuse))), unknown)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
    | st.fractions()
)
HASHABLE = st.recursive(
    SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=8
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(HASHABLE, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_values_cross_unchanged(value: object) -> None:
    found = across(value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        2**53,
        -(10**400),
        -0.0,
        math.inf,
        True,
        1.0,
        {1: "a", "1": "b", (2, 3): None},
        {"$": "dict", "v": []},
        bytearray(b"ab"),
        range(3, 10, 2),
        Decimal("1.10"),
        datetime.date(2025, 2, 3),
        datetime.datetime(2025, 2, 3, 4, 5, 6, 7),
        "\ud800",
        [[], [[]]],
        {1, 2},  # of numbers, or of one text: the order of several differs from run to run
        {"x"},
        int,
        [str, float],
    ],
    ids=repr,
)
def test_values_without_a_form_in_json_cross_too(value: object) -> None:
    found = across(value)
    assert found == value
    assert repr(found) == repr(value)


def test_nan_crosses() -> None:
    assert math.isnan(across(math.nan))


class Everything(int):
    """A number that says it equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Liar(list):
    def __len__(self) -> int:
        return 99


class Colour(IntEnum):
    RED = 1


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Everything(5), 5),
        (Liar([1]), [1]),
        (Colour.RED, 1),
        (Pair(1, 2), (1, 2)),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(x=1), {"x": 1}),
        (defaultdict(list, {1: []}), {1: []}),
    ],
    ids=["int", "list", "enum", "namedtuple", "Counter", "OrderedDict", "defaultdict"],
)
def test_subclasses_become_the_plain_value_they_extend(value: object, plain: object) -> None:
    found = across(value)
    assert type(found) is type(plain)
    assert found == plain
    assert not isinstance(found, Everything)


def test_other_objects_are_the_callers_business() -> None:
    def express(value: object, depth: int) -> object:
        return {"$": "mine", "v": [str(value), depth]}

    data = encode([open, {1: (Ellipsis,)}], express)
    found = decode(data, lambda tag, content, depth: (tag, *content, depth))
    depth = MAX_DEPTH
    assert found == [
        ("mine", str(open), depth - 1, depth - 1),
        {1: (("mine", "Ellipsis", depth - 3, depth - 3),)},
    ]


def test_depth_is_bounded_both_ways() -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(CodecError, match="deeper"):
        encode(deep, refuse)
    with pytest.raises(CodecError, match="deeper"):
        decode(deep, unknown)
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(CodecError):
        encode(cycle, refuse)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"$": "list"},
        {"$": "eval", "v": "1"},
        {"$": ["set"], "v": []},
        {"$": "set", "v": [[1]]},
        {"$": "set", "v": "abc"},
        {"$": "dict", "v": [[1]]},
        {"$": "dict", "v": [[[], 1]]},
        {"$": "int", "v": "zz"},
        {"$": "int", "v": 3},
        {"$": "float", "v": "1.5"},
        {"$": "complex", "v": ["1"]},
        {"$": "decimal", "v": "x"},
        {"$": "fraction", "v": ["0x1", "0x0"]},
        {"$": "bytes", "v": "zz"},
        {"$": "range", "v": ["0x0", "0x1", "0x0"]},
        {"$": "type", "v": "object"},
        {"$": "handle", "v": "0"},
        {"$": "handle", "v": True},
        {"$": "tuple", "v": [1], "x": 1},
    ],
    ids=str,
)
def test_forged_data_is_refused(data: object) -> None:
    with pytest.raises(CodecError):
        decode(data, unknown)
