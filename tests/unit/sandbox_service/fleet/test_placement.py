from __future__ import annotations

from collections import Counter

import pytest

from sandbox_service.fleet.placement import creator_of, least_loaded, rank

NAMES = [f"s{n}" for n in range(8)]
KEYS = [f"key-{n}" for n in range(2000)]


def test_all_gateways_agree_whatever_the_order_in_which_they_know_the_names():
    for key in KEYS[:50]:
        assert rank(key, NAMES) == rank(key, reversed(NAMES)) == rank(key, set(NAMES))


def test_every_name_is_in_the_order_once():
    assert sorted(rank("key", NAMES)) == NAMES


def test_keys_are_spread_evenly():
    wins = Counter(rank(key, NAMES)[0] for key in KEYS)
    assert len(wins) == len(NAMES)
    assert max(wins.values()) < 1.3 * len(KEYS) / len(NAMES)


def test_only_the_keys_of_a_name_that_goes_move():
    for key in KEYS:
        before = rank(key, NAMES)
        after = rank(key, [name for name in NAMES if name != "s3"])
        assert after == [name for name in before if name != "s3"]


def test_the_least_loaded_comes_first():
    assert least_loaded({"s0": 5, "s1": 2, "s2": 9}, ["s0", "s1", "s2"]) == ["s1", "s0", "s2"]


def test_equally_loaded_ones_take_turns():
    firsts = [least_loaded({}, NAMES, turn)[0] for turn in range(16)]
    assert Counter(firsts) == dict.fromkeys(NAMES, 2)


def test_without_supervisors_the_order_is_empty():
    assert rank("key", []) == least_loaded({}, [], 3) == []


@pytest.mark.parametrize(
    ("instance_id", "creator"),
    [
        (f"s1.{7:032x}", "s1"),
        ("mine", None),
        ("run7.episode1", None),
        (f"box-code-{7:032x}.{7:016x}", None),
        (f"box-code-{7:032x}.{7:032x}", None),
        (f"s1.{7:033x}", None),
        (f"s1.{7:032x}\n", None),
        (f".{7:032x}", None),
        ("s1.", None),
        ("", None),
    ],
)
def test_only_an_id_that_the_service_made_names_its_supervisor(instance_id, creator):
    assert creator_of(instance_id) == creator
