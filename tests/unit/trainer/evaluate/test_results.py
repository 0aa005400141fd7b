import json
import re
from dataclasses import replace

import pytest

from trainer.errors import DataError
from trainer.evaluate.intervals import Interval, wilson
from trainer.evaluate.played import summarise
from trainer.evaluate.results import (
    EpisodeTotals,
    EvaluationResult,
    TaskOutcome,
    append_evaluation,
    read_evaluations,
)
from trainer.types import FailureNote, Segment, StopReason, TaskRef, Timings, Trajectory, Turn

RESULT = EvaluationResult(
    step=7,
    when="after",
    split="test",
    tasks=(
        TaskOutcome("a", "easy", episodes=4, successes=3, mean_score=0.8),
        TaskOutcome("b", "hard", episodes=2, successes=0, mean_score=0.1, failures=2),
    ),
    environment="code",
    seconds=1.5,
)


def episode(task_id, *, success=None, score=None, difficulty="easy", split="test"):
    failure = None if score is not None else FailureNote("sandbox", "box_lost", "gone", "step")
    return Trajectory(
        id="0.0",
        task=TaskRef("code", split, task_id, difficulty),
        seed=0,
        segments=(),
        stop=StopReason.TERMINATED if failure is None else StopReason.FAILED,
        score=score,
        success=success,
        failure=failure,
    )


def test_rates_count_episodes_with_a_verdict():
    assert (RESULT.episodes, RESULT.successes, RESULT.failures) == (6, 3, 2)
    assert RESULT.success_rate == 0.5
    assert RESULT.mean_score == pytest.approx((0.8 * 4 + 0.1 * 2) / 6)


def test_an_evaluation_without_a_verdict_has_no_rate_but_does_not_fail():
    empty = EvaluationResult(0, "before", "test", (TaskOutcome("a", "", 0, 0, 0.0, failures=1),))
    assert (empty.success_rate, empty.mean_score, empty.interval) == (None, None, Interval(0.0, 1.0))


def test_difficulties_are_results_of_their_own():
    parts = RESULT.by_difficulty()
    assert list(parts) == ["easy", "hard"]
    assert parts["easy"].success_rate == 0.75
    assert parts["hard"].failures == 2
    assert parts["hard"].when == "after"


def test_the_interval_is_wilsons():
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662.
    interval = wilson(81, 263)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [
        (81, 263, 0.2552885198782742, 0.36620957698280004),
        (0, 20, 0.0, 0.16112515805281935),
        (3, 6, 0.18761630648265054, 0.8123836935173494),
        (131, 200, 0.5867558925905367, 0.7174020562325105),
    ],
)
def test_the_interval_is_that_of_scipy(successes, episodes, low, high):
    """``scipy.stats.binomtest(successes, episodes).proportion_ci(0.95, "wilson")`` of scipy 1.16.3."""
    interval = wilson(successes, episodes)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)


def test_the_interval_of_none_and_all_stays_within_its_bounds():
    assert wilson(0, 20).low == 0.0
    assert wilson(20, 20).high == 1.0
    assert 0.1 < wilson(0, 20).high < 0.2


def test_a_result_survives_json():
    assert EvaluationResult.from_json(RESULT.to_json()) == RESULT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"tasks": [{"task": 1}]}',
        json.dumps(json.loads(RESULT.to_json()) | {"when": "later"}),
    ],
)
def test_what_is_no_evaluation_is_refused(text):
    with pytest.raises(DataError, match="not an evaluation"):
        EvaluationResult.from_json(text)


def test_a_file_of_evaluations_names_the_line_that_is_wrong(tmp_path):
    file = tmp_path / "evaluations.jsonl"
    assert read_evaluations(file) == ()
    append_evaluation(file, RESULT)
    append_evaluation(file, RESULT)
    assert read_evaluations(file) == (RESULT, RESULT)
    file.write_text(RESULT.to_json() + "\n{}\n")
    with pytest.raises(DataError, match="line 2"):
        read_evaluations(file)


@pytest.mark.parametrize(
    "left", [b"{", "ü".encode()[:1], RESULT.to_json().encode()], ids=["text", "half a letter", "all"]
)
def test_a_line_that_is_still_being_written_is_no_evaluation_yet(tmp_path, left):
    file = tmp_path / "evaluations.jsonl"
    append_evaluation(file, RESULT)
    with file.open("ab") as lines:
        lines.write(left)
    assert read_evaluations(file) == (RESULT,)


def test_line_separators_of_unicode_do_not_end_a_line_of_evaluations(tmp_path):
    file = tmp_path / "evaluations.jsonl"
    task = replace(RESULT.tasks[0], task_id="a\u2028b\u0085c")
    result = replace(RESULT, tasks=(task, *RESULT.tasks[1:]))
    append_evaluation(file, result)
    assert read_evaluations(file) == (result,)


def test_episodes_are_summed_up_by_task_and_broken_ones_are_no_misses():
    result = summarise(
        [
            episode("a", success=True, score=1.0),
            episode("b", success=False, score=0.5, difficulty="hard"),
            episode("a", success=False, score=0.0),
            episode("b"),
        ],
        step=3,
        when="during",
        seconds=2.0,
    )
    first, second = result.tasks
    assert (first.task_id, first.episodes, first.successes, first.mean_score) == ("a", 2, 1, 0.5)
    assert first.causes == {"wrong_answer": 1}
    assert (second.episodes, second.successes, second.failures) == (1, 0, 1)
    assert second.failure_classes == {"sandbox": 1}
    assert (result.split, result.environment, result.step) == ("test", "code", 3)


@pytest.mark.parametrize("side", ["opponent", "partner"])
def test_turns_of_a_counterpart_are_no_cost_or_cause_of_the_agents(side):
    own = Segment((1, 2), (False, True), (0.0,) * 2, (Turn(1, 2, ()),))
    theirs = Segment(
        (1, 2), (False, True), (0.0,) * 2, (Turn(1, 2, (), terms={"well_formed": 0.0}),), **{side: True}
    )
    played = replace(episode("a", success=False, score=0.0), segments=(own, theirs))
    (task,) = summarise([played], step=0, when="alone").tasks
    assert (task.totals.turns, task.totals.tokens) == (1, 1)
    assert task.causes == {"wrong_answer": 1}


def test_splits_are_joined():
    played = [episode("a", success=True, score=1.0, split=split) for split in ("x", "y", "x")]
    result = summarise(played, step=0, when="before")
    assert result.split == "x+y"
    assert [task.episodes for task in result.tasks] == [2, 1]


def test_files_of_earlier_versions_are_read():
    line = (
        '{"step": 290, "when": "after", "split": "test", "tasks": [{"task_id": "a", "difficulty": "easy", '
        '"episodes": 2, "successes": 1, "mean_score": 0.5, "failures": 1}], "environment": "code", '
        '"seconds": 3.5}'
    )
    result = EvaluationResult.from_json(line)
    (task,) = result.tasks
    assert (result.step, result.success_rate, result.failures) == (290, 0.5, 1)
    assert (task.totals, task.causes, task.environment) == (None, {}, "")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("some notes", "not an evaluation: invalid JSON: .*"),
        ("3", "not an evaluation: should be a table or object"),
        ('{"step": 1, "when": "later"}', "not an evaluation: when: 'later' is not one of: .*"),
    ],
)
def test_what_is_no_evaluation_is_refused_in_plain_words(line, why):
    with pytest.raises(DataError) as caught:
        EvaluationResult.from_json(line)
    assert re.fullmatch(why, str(caught.value))


def test_cost_is_summed_over_the_scored_episodes_of_a_task():
    turn = Turn(1, 3, ())
    segment = Segment((1, 2, 3, 4), (False, True, True, False), (0.0,) * 4, (turn,))
    played = replace(
        episode("a", success=True, score=1.0),
        segments=(segment,),
        reward=1.5,
        timings=Timings(0.5, 1.0, 2.0, 0.25),
        task=TaskRef("code", "test", "a", "easy", "sums"),
    )
    lost = replace(episode("a"), timings=Timings(100.0, 0.0, 0.0, 0.0))
    (task,) = summarise([lost, played], step=0, when="alone").tasks
    assert task.totals == EpisodeTotals(reward=1.5, turns=1, tokens=2, seconds=3.75)
    assert (task.environment, task.split, task.category) == ("code", "test", "sums")
