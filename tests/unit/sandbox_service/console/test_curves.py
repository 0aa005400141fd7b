"""Curves of metrics, of one run and of several over each other."""

from itertools import pairwise

import pytest

from sandbox_service.console.curves import curves_of, overlay_of


def metrics_of(first, *values, name="reward/mean"):
    """A run's metrics with one value a step."""
    return {first + place: {name: value} for place, value in enumerate(values)}


def points_of(curve):
    return [tuple(map(float, point.split(","))) for point in curve.points.split()]


def test_a_run_alone_fills_its_axes():
    (curve,) = curves_of(metrics_of(3, 0.0, 0.5, 1.0))
    assert points_of(curve) == [(0, 100), (150, 50), (300, 0)]
    assert (curve.first_step, curve.last_step, curve.least, curve.most, curve.last) == (3, 5, 0, 1, 1)


def test_runs_over_each_other_share_both_axes():
    overlay = overlay_of("reward/mean", {"a": metrics_of(0, 0.0, 1.0), "b": metrics_of(2, 2.0, 2.0, 4.0)})
    assert (overlay.first_step, overlay.last_step) == (0, 4)
    assert (overlay.least, overlay.middle, overlay.most) == (0, 2, 4)
    assert [points_of(each.curve) for each in overlay.curves] == [
        [(0, 100), (75, 75)],
        [(150, 50), (225, 50), (300, 0)],
    ]


def test_a_run_without_the_metric_is_named_and_the_others_keep_their_numbers():
    runs = {"a": metrics_of(0, 1.0), "b": metrics_of(0, 1.0, name="loss/sft"), "c": metrics_of(0, 1.0)}
    overlay = overlay_of("reward/mean", runs)
    assert overlay.without == ("b",)
    assert [(each.number, each.run) for each in overlay.curves] == [(1, "a"), (3, "c")]


def test_a_metric_that_no_run_has_leaves_nothing_to_draw():
    overlay = overlay_of("made/up", {"a": metrics_of(0, 1.0)})
    assert (overlay.curves, overlay.without) == ((), ("a",))


@pytest.mark.parametrize("last", [0.0, 0.5, 1.0], ids=["at the bottom", "in the middle", "on top"])
def test_the_numbers_at_the_ends_of_curves_do_not_cover_each_other(last):
    runs = {f"r{number}": metrics_of(0, 0.0, 1.0, last) for number in range(8)}
    heights = sorted(each.label_y for each in overlay_of("reward/mean", runs).curves)
    assert heights[0] >= 0
    assert heights[-1] <= 100
    assert all(after - before >= 4.9 for before, after in pairwise(heights))


def test_a_number_stays_at_the_end_of_its_curve_where_no_other_is_near():
    runs = {"long": metrics_of(0, 0.0, 0.0, 0.5), "short": metrics_of(0, 0.5, 0.5), "top": metrics_of(0, 1.0)}
    ends = [(each.label_x, each.label_y) for each in overlay_of("reward/mean", runs).curves]
    assert ends == [(100, 50), (50, 50), (0, 0)]
