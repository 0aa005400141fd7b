"""A run's alarm when the learned reward and the environment's score part: it warns, or it ends the run."""

from dataclasses import replace

import pytest

from tests.harness.episodes_played import played
from trainer.batches.agreement import RewardAgreement
from trainer.batches.assemble import ScoredGroup
from trainer.config import RewardConfig
from trainer.config.learned_reward import AlarmConfig, LearnedRewardConfig
from trainer.errors import RunEnded
from trainer.reward import Scored


def agreement(**alarm):
    models = ("http://rewards",)
    alarms = AlarmConfig(window=3, least_correlation=0.2, **alarm)
    return RewardAgreement(RewardConfig(learned=LearnedRewardConfig(models=models, alarm=alarms)))


def groups(learned, scores):
    """One group whose episodes have these learned rewards and scores."""
    episodes = [
        replace(played({}, score=score), terms={"learned": reward})
        for reward, score in zip(learned, scores, strict=True)
    ]
    return [ScoredGroup(None, tuple(Scored(each, (0.0,)) for each in episodes))]


SCORES = [index / 10 for index in range(10)]
AGREES = groups(SCORES, SCORES)
PARTS = groups(SCORES[::-1], SCORES)


def test_rewards_that_agree_raise_no_alarm():
    alarm = agreement()
    for step in range(6):
        metrics = alarm.compare(step, AGREES)
        assert metrics["reward/learned_correlation"] == pytest.approx(1.0)
        assert metrics["reward/learned_alarm"] == 0.0


def test_rewards_that_part_for_a_window_raise_an_alarm_and_the_run_goes_on(caplog):
    alarm = agreement()
    raised = [alarm.compare(step, PARTS)["reward/learned_alarm"] for step in range(4)]
    assert raised == [0.0, 0.0, 1.0, 1.0]
    assert "step 2: reward.learned may be exploited" in caplog.text


def test_an_alarm_that_is_to_stop_the_run_ends_it_and_says_which_setting_did():
    alarm = agreement(action="stop")
    for step in range(2):
        alarm.compare(step, PARTS)
    with pytest.raises(RunEnded):
        alarm.compare(2, PARTS)
    for _ in range(4):  # as the ranks ask for the batch one after the other
        with pytest.raises(RunEnded, match=r"ends at step 2 because reward\.learned\.alarm\.action is stop"):
            alarm.compare(2, AGREES)


def test_a_step_without_judged_episodes_is_no_step_of_the_window():
    alarm = agreement()
    alarm.compare(0, PARTS)
    assert alarm.compare(1, []) == {}
    assert alarm.compare(2, PARTS)["reward/learned_alarm"] == 0.0
    assert alarm.compare(3, PARTS)["reward/learned_alarm"] == 1.0
