import pytest

from sandbox_service.environments.harbor.box.rewards import (
    RewardError,
    combine,
    falls_short,
    parse_rewards,
    score_of,
)


def test_json_takes_precedence_over_text() -> None:
    assert parse_rewards('{"reward": 0.5, "speed": 2}', "1") == {"reward": 0.5, "speed": 2.0}
    assert parse_rewards(None, " 0.25\n") == {"reward": 0.25}


@pytest.mark.parametrize(
    ("json_text", "text"),
    [
        (None, None),
        (None, ""),
        (None, "nan"),
        (None, "inf"),
        (None, "one"),
        (None, "1 2"),
        ("", "1"),
        ("{}", "1"),
        ("[1]", "1"),
        ("1", "1"),
        ('{"reward": NaN}', "1"),
        ('{"reward": 1e999}', "1"),
        ('{"reward": true}', "1"),
        ('{"reward": "1"}', "1"),
        ('{"reward": null}', "1"),
        ("[" * 100_000, "1"),
        ('{"reward": ' + "9" * 400 + "}", "1"),
    ],
)
def test_what_is_no_reward_is_an_error_and_never_0(json_text: str | None, text: str | None) -> None:
    with pytest.raises(RewardError):
        parse_rewards(json_text, text)


def test_the_score_is_the_reward_or_the_only_key() -> None:
    assert score_of({"reward": 0.5, "other": 1.0}) == 0.5
    assert score_of({"quality": 0.5}) == 0.5
    with pytest.raises(RewardError, match="none is named"):
        score_of({"a": 1.0, "b": 0.0})


def test_a_missing_key_falls_short() -> None:
    assert falls_short({"reward": 0.4}, {"reward": 0.5})
    assert falls_short({"reward": 1.0}, {"quality": 0.0})
    assert not falls_short({"reward": 0.5}, {"reward": 0.5})
    assert not falls_short({"reward": 0.0}, {})


def test_steps_combine_to_the_mean_of_each_key_or_the_last() -> None:
    steps = [{"reward": 1.0, "a": 1.0}, {"reward": 0.0}]
    assert combine(steps, "mean") == {"reward": 0.5, "a": 0.5}
    assert combine(steps, "final") == {"reward": 0.0}
