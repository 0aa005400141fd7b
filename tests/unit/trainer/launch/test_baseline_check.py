"""A baseline that cannot be played is refused by its name or by the run's counterpart."""

import pytest

from trainer.config.reading import read_run
from trainer.errors import ConfigError
from trainer.launch.baseline_check import check_baseline

OWN_POLICY = 'rollout.counterpart.kind="policy"'


def check(policy: str, *words: str) -> None:
    run = read_run(None, words)
    check_baseline(policy, run.rollout, run.evaluation)


def test_a_policy_of_another_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown policy 'foo'; choose random, reference, empty or openai:"):
        check("foo")


def test_a_counterpart_that_a_baseline_does_not_have_is_refused_unless_another_one_plays() -> None:
    with pytest.raises(ConfigError, match=r"by evaluation\.params"):
        check("random", OWN_POLICY)
    check("random", OWN_POLICY, 'evaluation.params={opponent="random"}')
    check("openai:m@http://127.0.0.1:1")
