import pytest

from trainer.errors import (
    BudgetSpent,
    ConfigError,
    EngineLost,
    NoProgress,
    RunEnded,
    StaleWeights,
    Stalled,
)
from trainer.loop.final import final_error, forget_final, noting_final


class FromAnActorError(RuntimeError, ConfigError):
    """Such as Ray makes of an error that crossed processes."""


@pytest.mark.parametrize(
    "error",
    [
        StaleWeights("of engine-0"),
        NoProgress("batch 3"),
        ConfigError("no such"),
        RunEnded("32 episodes in a row got no reward"),
        BudgetSpent("reward.judge.max_calls=10"),
    ],
)
def test_an_error_that_would_come_again_is_there_for_the_next_worker_group(tmp_path, error):
    with pytest.raises(type(error)), noting_final(tmp_path):
        raise error
    found = final_error(tmp_path)
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_a_kind_of_rays_own_is_noted_as_ours(tmp_path):
    with pytest.raises(FromAnActorError), noting_final(tmp_path):
        raise FromAnActorError("no such environment")
    assert type(final_error(tmp_path)) is ConfigError


@pytest.mark.parametrize("error", [EngineLost("died"), Stalled("a weight sync"), ValueError("a bug")])
def test_what_a_restart_may_mend_is_not_noted(tmp_path, error):
    with pytest.raises(type(error)), noting_final(tmp_path):
        raise error
    assert final_error(tmp_path) is None


def test_a_run_that_is_tried_again_begins_without_the_note(tmp_path):
    with pytest.raises(NoProgress), noting_final(tmp_path):
        raise NoProgress("batch 3")
    forget_final(tmp_path)
    forget_final(tmp_path)
    assert final_error(tmp_path) is None
