"""Seeds of turns, which stay as they are: a resumed run samples what it would have sampled."""

import pytest

from trainer.engines.seeds import continued_seed, other_draw, turn_seed


@pytest.mark.parametrize(
    ("episode_seed", "turn", "seed"),
    [(0, 0, 0), (0, 3, 3), (7, 0, 7000021), (7, 2, 7000023), (2147, 0, 2147006441), (2**40 + 5, 1, 5000016)],
)
def test_turns_are_consecutive_and_episodes_a_stride_apart(episode_seed, turn, seed) -> None:
    assert turn_seed(episode_seed, turn) == seed


@pytest.mark.parametrize(
    ("seed", "done", "rest"), [(0, 1, 1000003), (5, 17, 17000056), (2**62, 2**40, 5711200944738271232)]
)
def test_the_rest_of_a_turn_has_a_seed_of_its_own(seed, done, rest) -> None:
    assert continued_seed(seed, done) == rest


def test_another_draw_is_a_fixed_distance_away() -> None:
    assert [other_draw(seed) for seed in (0, 1, 2**31)] == [500009, 500010, 2147983657]
