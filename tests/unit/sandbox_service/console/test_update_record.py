"""The update's record of an episode: ratios and entropies by token, and why a segment was not trained."""

import struct
from base64 import b64encode

import pytest

from sandbox_service.console.run_records import RunAdvantages, RunEpisode, RunFailure, RunSegment
from sandbox_service.console.update_record import RatioBounds, segment_records

SAMPLED = RunSegment((1, 2, 3), (True, False, True), (-1.0, 0.0, -0.5))
"""The first token of a segment is in no loss, also where the policy sampled it."""
CONTEXT = RunSegment((1, 2), (False, False), (0.0, 0.0))


def episode(*segments, **known):
    return RunEpisode("5.0", segments or (SAMPLED,), **known)


def floats(*values):
    return b64encode(struct.pack(f"<{len(values)}e", *values)).decode()


def recorded(name="5.0", gaps=None, entropies=None, advantages=((0.0, 2), (0.5, 1))):
    return RunAdvantages(
        5,
        0,
        {name: advantages},
        {} if gaps is None else {name: gaps},
        {} if entropies is None else {name: entropies},
    )


def mismatch(**given):
    return {"algorithm": {"mismatch": given}}


def test_ratios_and_entropies_belong_to_the_trained_tokens_of_their_segment():
    second = RunSegment((1, 2, 3), (False, True, True), (0.0, -1.0, -1.0))
    record = recorded("5.0#1", floats(0.0, -1.0), floats(0.5, 2.0))
    first, last = segment_records(episode(SAMPLED, second), record, {})
    assert (first.ratios, first.entropies) == ({}, {})
    assert last.ratios == {1: 1.0, 2: pytest.approx(0.3679, abs=1e-4)}
    assert last.entropies == {1: 0.5, 2: 2.0}


@pytest.mark.parametrize("gaps", [floats(0.0, 0.0), "no base64", "", floats(float("nan"))])
def test_a_record_that_does_not_fit_its_tokens_is_left_out(gaps):
    (record,) = segment_records(episode(), recorded(gaps=gaps), {})
    assert record.ratios == {}
    assert record.advantages


@pytest.mark.parametrize(
    ("mode", "level", "corrections"),
    [
        ("off", "token", ["", "", ""]),
        ("truncate", "token", ["", "", "truncated"]),
        ("mask", "token", ["masked", "", "masked"]),
        ("mask", "sequence", ["", "", ""]),
    ],
)
def test_a_ratio_outside_of_the_runs_bounds_is_corrected_as_the_run_says(mode, level, corrections):
    bounds = RatioBounds.of(mismatch(mode=mode, level=level, cap=3, floor=0.25))
    assert [bounds.admit(ratio) for ratio in (0.2, 3.0, 3.1)] == [False, True, False]
    assert [bounds.correction(ratio) for ratio in (0.2, 3.0, 3.1)] == corrections


@pytest.mark.parametrize("settings", [{}, {"algorithm": None}, mismatch(cap="x", floor=None)])
def test_settings_that_cannot_be_read_leave_the_trainers_bounds(settings):
    bounds = RatioBounds.of(settings)
    assert (bounds.floor, bounds.cap, bounds.correction(9.0)) == (0.5, 2.0, "")


@pytest.mark.parametrize(
    ("played", "record", "settings", "reason"),
    [
        (episode(), recorded(), {}, ""),
        (episode(), None, {}, ""),
        (episode(CONTEXT), recorded(), {}, "the policy sampled none of its tokens"),
        (episode(failure=RunFailure("timeout", "late")), None, {}, "the episode failed (timeout: late)"),
        (episode(stop="turn_cut"), None, {"algorithm": {"overlong": "mask"}}, "a limit cut the episode off"),
        (episode(stop="turn_cut"), None, {"algorithm": {"overlong": "keep"}}, ""),
        (episode(stop="truncated"), None, {"algorithm": {"overlong": "mask"}}, ""),
        (episode(weight=0.0), recorded(), {}, "the episode has weight 0"),
        (episode(), recorded(advantages=((0.0, 3),)), {}, "all its advantages are 0"),
        (
            episode(),
            recorded(advantages=((0.0, 3),)),
            {"algorithm": {"distillation": {"estimate": "exact"}}},
            "",
        ),
        (episode(), recorded(advantages=((0.0, 3),)), {"algorithm": {"kl": {"place": "loss"}}}, ""),
        (episode(), recorded(advantages=((0.0, 3),)), {"algorithm": {"entropy": 0.01}}, ""),
        (
            episode(),
            recorded(gaps=floats(2.0)),
            mismatch(mode="mask", level="sequence"),
            "the product of its ratios, 7.389, is outside of 0.5 to 2",
        ),
        (episode(), recorded(gaps=floats(2.0)), mismatch(mode="truncate", level="sequence"), ""),
    ],
)
def test_the_reason_why_a_segment_is_not_trained_is_named(played, record, settings, reason):
    (found,) = segment_records(played, record, settings)
    assert found.untrained.startswith(reason)
    assert bool(found.untrained) == bool(reason)
