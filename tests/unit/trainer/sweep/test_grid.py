import pytest

from trainer.config.reading import read_run
from trainer.errors import ConfigError
from trainer.sweep.grid import make_trials, parse_axes, split_values


def test_settings_with_several_values_are_swept_and_others_are_constant():
    axes, constants = parse_axes(["rollout.group_size=4,8", "steps=3", "seed=0,1,2"])
    assert [(axis.key, axis.values) for axis in axes] == [
        ("rollout.group_size", ("4", "8")),
        ("seed", ("0", "1", "2")),
    ]
    assert constants == ("steps=3",)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", ("1",)),
        ("1e-4,3e-4", ("1e-4", "3e-4")),
        ('["a","b"]', ('["a","b"]',)),
        ('["a"],["b","c"]', ('["a"]', '["b","c"]')),
        ("{a=1,b=2},none", ("{a=1,b=2}", "none")),
        ("'a,b',c", ("'a,b'", "c")),
    ],
)
def test_commas_within_brackets_and_quotes_belong_to_a_value(text, values):
    assert split_values(text) == values


def test_every_combination_is_a_trial_with_a_name_of_a_run():
    axes, _ = parse_axes(["learner.optimizer.learning_rate=1e-4,3e-4", "rollout.group_size=4,8"])
    trials = make_trials(axes)
    assert [trial.name for trial in trials] == [
        "learning_rate-1e-4.group_size-4",
        "learning_rate-1e-4.group_size-8",
        "learning_rate-3e-4.group_size-4",
        "learning_rate-3e-4.group_size-8",
    ]
    assert trials[2].overrides == ("learner.optimizer.learning_rate=3e-4", "rollout.group_size=4")


def test_every_name_is_one_that_a_run_can_have():
    axes, _ = parse_axes(["learner.optimizer.learning_rate=1e-6,1e+0", 'tasks.splits=["é+"],["a"]'])
    for trial in make_trials(axes):
        assert read_run(None, [f"name={trial.name}"]).name == trial.name


def test_names_that_are_too_long_or_equal_become_numbers():
    axes, _ = parse_axes(['tasks.splits=["a b"],["a/b"]'])
    assert [trial.name for trial in make_trials(axes)] == ["trial-000", "trial-001"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["steps=3"], "nothing to sweep"),
        (["seed=1,"], "has an empty or a repeated value; write seed=A,B"),
        (["seed=1,1"], "has an empty or a repeated value"),
        (["seed=1, 1"], "has an empty or a repeated value"),
        (["seed=1,2", "seed=3,4"], "seed is swept twice"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_axes(words)
