import pytest

from trainer.engines.routing import choose_engine


def test_a_key_finds_the_same_engine_whatever_the_order_of_engines():
    loads = {"a": 0, "b": 0, "c": 0}
    turned = dict(reversed(loads.items()))
    for key in map(str, range(50)):
        assert choose_engine(key, loads) == choose_engine(key, turned)


def test_an_engine_that_goes_away_moves_its_own_keys_only():
    keys = [str(key) for key in range(200)]
    before = {key: choose_engine(key, {"a": 0, "b": 0, "c": 0}) for key in keys}
    after = {key: choose_engine(key, {"a": 0, "b": 0}) for key in keys}
    assert all(after[key] == engine for key, engine in before.items() if engine != "c")


def test_no_engine_gets_much_more_than_its_share_even_of_one_key():
    loads = {"a": 0, "b": 0, "c": 0, "d": 0}
    for _ in range(400):
        loads[choose_engine("the same", loads)] += 1
    assert max(loads.values()) <= 126


def test_keys_are_spread():
    chosen = [choose_engine(str(key), {"a": 0, "b": 0, "c": 0, "d": 0}) for key in range(400)]
    assert all(70 < chosen.count(name) < 130 for name in "abcd")


def test_without_engines_there_is_nothing_to_choose():
    with pytest.raises(ValueError, match="no engine"):
        choose_engine("key", {})
