"""Advantages of each source have the same size, whatever its rewards are."""

from dataclasses import replace

import numpy as np
import pytest

from tests.harness.samples import batch, outcomes, sample
from trainer.advantage import credit
from trainer.config.algorithm import AlgorithmConfig


def rows():
    """Two groups of each of two sources; rewards of the second are a thousand times as large."""
    small = [*outcomes(0.0, 1.0), *outcomes(0.0, 0.0, 1.0, group=1)]
    large = [*outcomes(0.0, 1000.0, group=2), *outcomes(0.0, 0.0, 1000.0, group=3)]
    named = [replace(each, source="a") for each in small] + [replace(each, source="b") for each in large]
    return batch(*named)


def advantages(by_source, given=None, kind="dr_grpo", **settings):
    settings = {"advantage": {"kind": kind, **settings}, "by_source": by_source}
    done = credit(given or rows(), AlgorithmConfig.model_validate(settings))
    return {
        name: np.concatenate([each.advantages_T[each.mask_T] for each in done.samples if each.source == name])
        for name in ("a", "b")
    }


def test_without_it_the_source_with_large_rewards_has_large_advantages() -> None:
    found = advantages("none")
    assert np.abs(found["b"]).max() == pytest.approx(1000 * np.abs(found["a"]).max())


def test_scale_keeps_signs_and_makes_sizes_equal() -> None:
    found = advantages("scale")
    assert found["a"] == pytest.approx(found["b"], rel=1e-5)
    assert np.square(found["a"]).mean() == pytest.approx(1.0, rel=1e-5)
    plain = advantages("none")["a"]
    assert np.sign(found["a"]).tolist() == np.sign(plain).tolist()


def test_whiten_also_moves_the_mean_to_zero() -> None:
    found = advantages("whiten", kind="reinforce_pp")
    for each in found.values():
        assert each.mean() == pytest.approx(0.0, abs=1e-6)
        assert each.std() == pytest.approx(1.0, rel=1e-4)


def test_a_source_without_signal_keeps_its_zeros() -> None:
    flat = [replace(each, source="a") for each in outcomes(1.0, 1.0)]
    other = [replace(each, source="b") for each in outcomes(0.0, 1.0, group=1)]
    found = advantages("scale", batch(*flat, *other))
    assert not found["a"].any()
    assert found["b"].any()


def alike(reward, count, source, group):
    """Episodes of different lengths, all with this reward."""
    lengths = [5 + place for place in range(count)]
    return [
        replace(
            sample(f"{group}.{place}", [0] * length, [*[0.0] * (length - 1), reward], group=group),
            source=source,
        )
        for place, length in enumerate(lengths)
    ]


@pytest.mark.parametrize("count", range(3, 9))
@pytest.mark.parametrize(
    "settings", [{"kind": "reinforce_pp"}, {"kind": "return_to_go", "baseline": "batch"}]
)
def test_whiten_takes_no_rounding_of_equal_rewards_for_a_signal(settings, count) -> None:
    other = [replace(each, source="b") for each in outcomes(0.0, 0.37, 0.0, 0.37, group=1)]
    found = advantages("whiten", batch(*alike(1.0, count, "a", 0), *other), **settings)
    assert not found["a"].any()
    assert found["b"].std() == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("by_source", ["scale", "whiten"])
def test_rewards_that_differ_by_rounding_have_no_signal_in_any_source(by_source) -> None:
    given = batch(*alike(0.7, 4, "a", 0), *alike(0.70000005, 4, "b", 1))
    found = advantages(by_source, given, kind="reinforce_pp")
    assert not np.concatenate([*found.values()]).any()
