import math

from trainer.report.plots import Plot, draw
from trainer.report.series import MOST_POINTS, Series, named, series, smoothed


def steps(count, **values):
    return {step: {name: value(step) for name, value in values.items()} for step in range(count)}


def test_a_metric_is_read_where_it_is_and_is_finite():
    metrics = {0: {"a": 1.0}, 1: {"a": math.nan}, 2: {"b": 1.0}, 3: {"a": 2.0}}
    assert series(metrics, "a") == Series((0, 3), (1.0, 2.0))
    assert series(metrics, "c") is None


def test_a_long_line_is_thinned_without_moving_it():
    found = series(steps(50_000, a=float), "a")
    assert len(found.steps) == MOST_POINTS
    assert all(abs(step - value) <= 1 for step, value in zip(found.steps, found.values, strict=True))


def test_a_short_line_is_not_smoothed_and_a_constant_one_stays_as_it_is():
    assert smoothed(Series((0, 1), (0.0, 1.0))) is None
    constant = Series(tuple(range(100)), (3.0,) * 100)
    assert smoothed(constant) == constant


def test_names_are_found_by_their_beginning():
    assert named({0: {"success/easy": 1.0, "x": 0.0}, 1: {"success/hard": 1.0}}, "success/") == (
        "success/easy",
        "success/hard",
    )


def test_a_plot_without_its_metrics_is_left_out():
    assert draw(Plot("Loss", ("loss/policy",)), {0: {"reward/mean": 1.0}}) is None


def test_stacked_plots_stack_and_bars_are_bars():
    metrics = steps(3, **{"stops/a": float, "stops/b": float})
    stacked = draw(Plot("Stops", ("stops/",), "stacked"), metrics)
    assert [trace["stackgroup"] for trace in stacked.traces] == ["all", "all"]
    bars = draw(Plot("Stops", ("stops/",), "bars"), metrics)
    assert [trace["type"] for trace in bars.traces] == ["bar", "bar"]
    assert bars.layout["barmode"] == "stack"


def test_long_lines_are_drawn_faint_with_their_mean_in_front():
    figure = draw(Plot("Loss", ("loss/policy",)), steps(100, **{"loss/policy": float}))
    faint, front = figure.traces
    assert (faint["showlegend"], front["name"]) == (False, "policy")
