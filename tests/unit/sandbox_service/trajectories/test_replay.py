"""Which actions are sent again."""

import pytest

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.replay import replay_of
from tests.fakes.episodes import create, evaluation, failure, step


def test_the_create_and_the_steps_that_succeeded_are_sent_again():
    first, second = step(sequence=2, index=0), step(sequence=4, index=1)
    replay = replay_of([create(), failure(sequence=1), first, evaluation(sequence=3), second])
    assert replay.create == create()
    assert replay.steps == (first, second)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing"),
        pytest.param([step()], id="no beginning"),
        pytest.param([create(), create(sequence=1)], id="two beginnings"),
        pytest.param([create(), step(index=1)], id="a hole"),
        pytest.param([create(), step(index=0), step(sequence=2, index=0)], id="a step twice"),
    ],
)
def test_a_history_that_is_not_whole_is_never_replayed(events):
    with pytest.raises(ServiceError) as refused:
        replay_of(events)
    assert refused.value.code is ErrorCode.INSTANCE_LOST
