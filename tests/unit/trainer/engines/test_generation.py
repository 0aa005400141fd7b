"""Generations that cannot be a turn."""

import pytest

from trainer.engines.generation import Finish, Generation
from trainer.errors import EngineError


@pytest.mark.parametrize(
    ("generation", "reason"),
    [
        (Generation((1, 2), (-0.5, -0.5), Finish.ABORT, ()), "interrupted"),
        (Generation((), (), Finish.STOP, ()), "0 tokens and 0 log-probabilities"),
        (Generation((1, 2), (-0.5,), Finish.STOP, ()), "2 tokens and 1 log-probabilities"),
    ],
    ids=["interrupted", "empty", "without a log-probability"],
)
def test_an_incomplete_generation_is_the_engines_failure(generation, reason) -> None:
    with pytest.raises(EngineError, match=reason):
        generation.check_complete()


def test_a_turn_that_was_cut_is_complete() -> None:
    Generation((1, 2), (-0.5, -0.5), Finish.LENGTH, ()).check_complete()
