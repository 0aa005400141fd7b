import pytest

from trainer.config.evaluation_splits import evaluation_splits
from trainer.config.reading import read_run
from trainer.errors import ConfigError


@pytest.mark.parametrize(
    ("environment", "split", "held_out"),
    [
        ("code", "humaneval", True),
        ("code", "mbpp", True),
        ("appworld", "test_normal", True),
        ("textcraft", "test", True),
        ("code", "programs_test", True),
        ("code", "programs_train", False),
        ("code", "latest", False),
        ("echo", "humaneval", False),
    ],
)
def test_evaluation_splits_are_known_by_name(environment: str, split: str, held_out: bool) -> None:
    assert evaluation_splits(environment, (split,)) == ((split,) if held_out else ())


def test_a_run_that_trains_on_evaluation_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="tasks: humaneval of code is for evaluation"):
        read_run(overrides=['tasks.splits=["programs_train", "humaneval"]'])


def test_a_source_of_evaluation_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="tasks: test of textcraft is for evaluation"):
        read_run(
            overrides=['tasks.sources=[{environment="code"}, {environment="textcraft", splits=["test"]}]']
        )


def test_a_run_may_train_on_evaluation_data_where_that_is_said() -> None:
    words = ['tasks.splits=["humaneval"]', "tasks.allow_evaluation_splits=true"]
    assert read_run(overrides=words).tasks.splits == ("humaneval",)


def test_evaluation_splits_are_for_evaluation() -> None:
    assert read_run(overrides=['evaluation.splits=["humaneval"]']).evaluation.splits == ("humaneval",)
