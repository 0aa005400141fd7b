import numpy as np
import pytest

from trainer.config import RunConfig
from trainer.errors import StaleWeights
from trainer.weight_sync.agreement import Agreement, AgreementLimits, Reading, limits_of

SIXTEEN_BITS = AgreementLimits(0.1, 0.35)
NOISE = 0.05
TOKENS = 1000


@pytest.mark.parametrize(
    ("device", "branches", "warn", "fail"),
    [
        ("cpu", {}, 1e-5, 1e-4),
        ("cpu", {"learner": {"gpus": 1}}, 0.1, 0.347),
        ("cpu", {"learner": {"gpus": 1, "dtype": "float32"}}, 1e-3, 5e-3),
        ("cpu", {"learner": {"dtype": "bfloat16"}}, 0.1, 0.347),
        ("cuda", {"engine": {"dtype": "float32"}, "learner": {"gpus": 1}}, 0.1, 0.347),
        ("cuda", {}, 0.1, 0.347),
        ("cpu", {"sync": {"tolerance": 0.5}}, 1e-5, 0.5),
        ("cpu", {"sync": {"tolerance": 0.5, "warn_above": 0.2}}, 0.2, 0.5),
        ("cuda", {"sync": {"tolerance": 0.05}}, 0.05, 0.05),
    ],
)
def test_bounds_are_close_where_both_sides_compute_exactly(device, branches, warn, fail):
    limits = limits_of(RunConfig.model_validate(branches).hardware, device)
    assert (limits.warn, limits.fail) == pytest.approx((warn, fail), abs=1e-3)


class World:
    """A policy whose log-probabilities of new texts move by ``step`` at each update, with the noise of 16
    bits on every answer of either side."""

    def __init__(self, step, arrives=1.0, seed=0):
        self.rng = np.random.default_rng(seed)
        self.step = step
        self.arrives = arrives

    def noisy(self, true):
        return true + self.rng.normal(0, NOISE, TOKENS)

    def readings(self):
        """Readings of the same tokens after and before it."""
        before = -self.rng.exponential(2.0, TOKENS)
        moved = self.rng.normal(0, self.step, TOKENS)
        now = Reading(self.noisy(before + self.arrives * moved), self.noisy(before + moved))
        return now, Reading(self.noisy(before), self.noisy(before))


def judge_each(name, world, agreement, syncs):
    for _ in range(syncs):
        agreement.judge(name, *world.readings())


@pytest.mark.parametrize("step", [0.0, 0.003, 0.03, 0.3, 3.0])
def test_rounding_raises_no_alarm_however_far_an_update_goes(step):
    world, agreement = World(step), Agreement(SIXTEEN_BITS)
    for _ in range(500):
        judgement = agreement.judge("engine", *world.readings())
        assert judgement.warnings == ()
    assert judgement.difference == pytest.approx(NOISE * np.sqrt(2) * np.sqrt(2 / np.pi), rel=0.1)
    assert judgement.k3 == pytest.approx(NOISE**2, rel=0.2)


@pytest.mark.parametrize(("step", "syncs"), [(0.3, 1), (0.1, 1), (0.05, 4), (0.03, 12)])
def test_weights_that_stay_behind_are_found_out_even_where_the_noise_is_greater(step, syncs):
    world, agreement = World(step, arrives=0.0), Agreement(SIXTEEN_BITS)
    with pytest.raises(StaleWeights, match="engine samples with older weights"):
        judge_each("engine", world, agreement, syncs)


def test_an_engine_that_lacks_a_part_of_the_update_is_warned_of():
    world, agreement = World(0.5, arrives=0.9), Agreement(SIXTEEN_BITS)
    (warning,) = agreement.judge("engine", *world.readings()).warnings
    assert "lacks at least" in warning


def test_weights_that_are_wrong_are_found_out_though_the_difference_is_within_bounds():
    world = World(0.1)
    now, before = world.readings()
    wrong = Reading(now.engine + world.rng.normal(0, 0.3, TOKENS), now.learner)
    with pytest.raises(StaleWeights, match="took weights that are not the learner's"):
        Agreement(SIXTEEN_BITS).judge("engine", wrong, before)


def test_the_soft_limit_warns_and_the_hard_one_ends():
    learner = np.full(TOKENS, -1.0)
    agreement = Agreement(SIXTEEN_BITS)
    assert agreement.judge("engine", Reading(learner + 0.09, learner)).warnings == ()
    (warning,) = agreement.judge("engine", Reading(learner + 0.11, learner)).warnings
    assert "0.11 nats" in warning
    with pytest.raises(StaleWeights, match=r"0\.36 nats"):
        agreement.judge("engine", Reading(learner + 0.36, learner))


def test_a_few_unlikely_tokens_are_no_reason_to_warn():
    rng = np.random.default_rng(0)
    learner = -rng.exponential(2.0, 320)
    engine = learner + rng.normal(0, 0.09, 320)
    engine[:3] += 4.0
    found = Agreement(SIXTEEN_BITS).judge("engine", Reading(engine, learner))
    assert found.difference > SIXTEEN_BITS.warn
    assert found.warnings == ()


def test_what_is_no_number_does_not_pass():
    learner = np.full(TOKENS, -1.0)
    with pytest.raises(StaleWeights):
        Agreement(SIXTEEN_BITS).judge("engine", Reading(learner * np.nan, learner))


def test_stale_weights_are_a_warning_where_precision_may_swallow_an_update():
    world, agreement = World(0.3, arrives=0.0), Agreement(SIXTEEN_BITS, rounds_updates_away=True)
    assert "sync.transport=adapter" in agreement.judge("engine", *world.readings()).warnings[-1]


def test_engines_are_judged_by_their_own_evidence():
    agreement = Agreement(SIXTEEN_BITS)
    good, bad = World(0.05), World(0.05, arrives=0.0, seed=1)
    judge_each("good", good, agreement, 20)
    with pytest.raises(StaleWeights, match=r"^bad"):
        judge_each("bad", bad, agreement, 20)
    judge_each("good", good, agreement, 20)
