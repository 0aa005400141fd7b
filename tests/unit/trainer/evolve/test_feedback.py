import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.fakes.clock import FakeClock
from tests.fakes.evolution import episode
from trainer.config import FeedbackConfig, RewardConfig
from trainer.errors import BudgetSpent, DataError, JudgeFailed, RewardFailed, TrainerError
from trainer.evolve.feedback.aggregation import AGGREGATIONS
from trainer.evolve.feedback.judged import JudgeFeedback
from trainer.evolve.feedback.people import read_feedback
from trainer.evolve.feedback.sources import Feedback, RewardFeedback
from trainer.evolve.feedback.values import FeedbackScope, gather_feedback, open_sources, value_episodes
from trainer.rollout.streak import FAILING_S, MOST_IN_A_ROW
from trainer.types import Trajectory

EPISODES = [replace(episode(f"1/{place}.0", place / 2), outcome=1 - place / 4) for place in range(3)]
JUDGED = RewardConfig.model_validate({"kind": "judge", "judge": {"model": "m", "rubric": "r"}})
KNOWN = {each.id for each in EPISODES}


async def values(folder: Path, **settings: object) -> dict[str, float]:
    config = FeedbackConfig.model_validate(settings)
    sources = open_sources(config, FeedbackScope(1, folder, "explored", JUDGED), KNOWN)
    rows = await gather_feedback(EPISODES, sources)
    valued = value_episodes(EPISODES, rows, config, folder / "feedback.jsonl")
    return {each.trajectory.id: each.value for each in valued}


async def test_by_default_an_episode_is_worth_its_score(tmp_path: Path) -> None:
    assert await values(tmp_path) == {"1/0.0": 0.0, "1/1.0": 0.5, "1/2.0": 1.0}


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("mean", [0.5, 0.625, 0.75]), ("min", [0.0, 0.5, 0.5]), ("weighted", [0.75, 0.6875, 0.625])],
)
async def test_sources_are_aggregated(tmp_path: Path, aggregate: str, expected: list[float]) -> None:
    found = await values(
        tmp_path, sources=["environment", "reward"], aggregate=aggregate, weights={"reward": 3.0}
    )
    assert list(found.values()) == expected


@pytest.mark.parametrize("name", ["mean", "min", "weighted"])
def test_a_value_needs_all_sources(name: str) -> None:
    assert AGGREGATIONS[name]([1.0, None], [1.0, 1.0]) is None


def test_the_first_source_that_answers_counts() -> None:
    assert AGGREGATIONS["first"]([None, 0.3, 0.9], [1.0, 1.0, 1.0]) == 0.3
    assert AGGREGATIONS["first"]([None, None], [1.0, 1.0]) is None


async def test_people_count_before_the_environment_where_they_have_looked(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    rows: list[dict[str, object]] = [
        {"id": "1/0.0", "label": "good", "comment": "right in spirit"},
        {"id": "1/2.0", "score": 0.25},
        {"id": "2/7.0", "label": "bad"},  # of another iteration
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = await values(tmp_path, sources=["people", "environment"], aggregate="first", people=file)
    assert found == {"1/0.0": 1.0, "1/1.0": 0.5, "1/2.0": 0.25}
    kept = [json.loads(line) for line in (tmp_path / "feedback.jsonl").read_text().splitlines()]
    assert kept[0] == {
        "id": "1/0.0",
        "value": 1.0,
        "people": {"value": 1.0, "comment": "right in spirit"},
        "environment": {"value": 0.0, "comment": ""},
    }
    assert kept[1]["people"] is None


async def test_an_episode_without_the_feedback_it_needs_is_not_selected(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    file.write_text('{"id": "1/1.0", "label": "good"}\n')
    assert await values(tmp_path, sources=["people"], people=file) == {"1/1.0": 1.0}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("{", "not valid JSON"),
        ('{"id": "1/0.0"}', "either a score or a label"),
        ('{"id": "1/0.0", "score": 1.0, "label": "good"}', "either a score or a label"),
        ('{"id": "1/0.0", "score": NaN}', "no finite number"),
        ('{"id": "1/0.0", "label": "fine"}', "label"),
        ('{"id": "1/0.0", "score": "high"}', "score"),
        ('{"id": "1/0.0", "rating": 3, "score": 1.0}', "rating"),
        ('{"id": "1/9.0", "score": 1.0}', "iteration 1 has no episode '1/9.0'"),
        ('{"id": "1/1.0", "score": 1.0}', "'1/1.0' occurs twice"),
        ('{"score": 1.0}', "id"),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_reason(tmp_path: Path, row: str, why: str) -> None:
    file = tmp_path / "people.jsonl"
    file.write_text('{"id": "1/1.0", "score": 1.0}\n' + row + "\n")
    with pytest.raises(DataError, match=r"people\.jsonl:2: ") as raised:
        read_feedback(file, 1, KNOWN)
    assert why in str(raised.value)


def test_a_file_without_rows_of_the_iteration_says_what_to_add(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    file.write_text('{"id": "1/1.0", "score": 1.0}\n')
    with pytest.raises(DataError, match="no row for iteration 2"):
        read_feedback(file, 2, KNOWN)


async def test_a_file_that_is_not_written_yet_stops_with_instructions(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*later\.jsonl yet.*--resume"):
        await values(tmp_path, sources=["people"], people=tmp_path / "later.jsonl")


LEARNED = {"models": ["/critic"], "weight": 0.5}
STEPS = {"models": ["/steps"], "weight": 2.0, "baseline": 0.25}


@pytest.mark.parametrize(
    ("reward", "value"),
    [
        ({"learned": LEARNED}, 0.5 * 3.0),
        ({"process": STEPS}, 2.0 * (0.75 - 0.25)),
        ({"kind": "judge", "learned": LEARNED, "outcome_weight": 0.1}, 0.1 + 1.5),
        ({"kind": "judge", "learned": LEARNED, "process": STEPS}, 1.0 + 1.5 + 1.0),
    ],
    ids=["reward-model", "process-reward-model", "judge-and-reward-model", "all"],
)
async def test_the_reward_is_its_models_scores_and_outcome_each_with_its_weight(
    reward: dict[str, object], value: float
) -> None:
    config = RewardConfig.model_validate({"judge": {"model": "m", "rubric": "r"}, **reward})
    scored = _with_terms(EPISODES[0], {"learned": 3.0, "process/correctness": 0.75})
    assert await RewardFeedback(config).give_feedback(scored) == Feedback(pytest.approx(value))
    assert await RewardFeedback(config).give_feedback(EPISODES[0]) is None


async def test_the_turns_of_a_trained_counterpart_are_none_of_the_agents() -> None:
    config = RewardConfig.model_validate({"learned": LEARNED, "process": STEPS})
    alone = _with_terms(EPISODES[0], {"learned": 3.0, "process/correctness": 0.75})
    theirs = _with_terms(EPISODES[0], {"learned": 5.0, "process/correctness": 0.5}).segments[0]
    both = replace(alone, segments=(*alone.segments, replace(theirs, opponent=True)))
    feedback = RewardFeedback(config)
    assert await feedback.give_feedback(both) == await feedback.give_feedback(alone)


def _with_terms(episode: Trajectory, terms: dict[str, float]) -> Trajectory:
    (segment,) = episode.segments
    (turn,) = segment.turns
    return replace(episode, segments=(replace(segment, turns=(replace(turn, terms=terms),)),))


async def test_no_feedback_on_any_episode_is_an_error(tmp_path: Path) -> None:
    bare = [replace(each, outcome=None) for each in EPISODES]
    config = FeedbackConfig(sources=("reward",))
    sources = open_sources(config, FeedbackScope(1, tmp_path, "", JUDGED), KNOWN)
    with pytest.raises(DataError, match="none of 3 episodes has the feedback of reward"):
        value_episodes(bare, await gather_feedback(bare, sources), config, tmp_path / "feedback.jsonl")


class ScriptedJudge:
    """Gives outcomes, or raises, one after another."""

    def __init__(self, answers: Sequence[float | TrainerError]) -> None:
        self.answers = list(answers)
        self.closed = False

    async def find_outcome(self, trajectory: Trajectory) -> float:
        answer = self.answers.pop(0)
        if isinstance(answer, TrainerError):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


async def test_a_judge_that_fails_for_an_episode_gives_it_no_feedback() -> None:
    judge = ScriptedJudge([0.5, JudgeFailed("nonsense"), 1.0])
    given = await gather_feedback(EPISODES, [JudgeFeedback(judge)])
    assert given == [[Feedback(0.5)], [None], [Feedback(1.0)]]
    assert judge.closed


class Outage:
    """A judge that fails until a time, and a clock that goes on while feedback waits."""

    def __init__(self, until: float) -> None:
        self.clock = FakeClock(0.0)
        self.until = until
        self.closed = False

    def source(self) -> JudgeFeedback:
        return JudgeFeedback(self, self.clock.monotonic, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def find_outcome(self, trajectory: Trajectory) -> float:
        if self.clock.monotonic() < self.until:
            raise JudgeFailed("down")
        return 1.0

    async def close(self) -> None:
        self.closed = True


async def test_episodes_wait_for_a_judge_that_fails_for_all_while_its_server_restarts() -> None:
    given = await gather_feedback([episode()] * 1000, [Outage(FAILING_S - 60).source()])
    assert [each for (each,) in given].count(None) == MOST_IN_A_ROW - 1


async def test_a_judge_that_fails_for_all_over_minutes_ends_the_evolution() -> None:
    judge = Outage(math.inf)
    with pytest.raises(JudgeFailed, match=r"\d+ requests in a row got no feedback, over 180 s: down"):
        await gather_feedback([episode()] * MOST_IN_A_ROW, [judge.source()])
    assert judge.closed


@pytest.mark.parametrize("error", [BudgetSpent("spent"), RewardFailed("broken")], ids=str)
async def test_a_judge_that_cannot_be_used_any_more_ends_the_evolution(error: TrainerError) -> None:
    judge = ScriptedJudge([error])
    with pytest.raises(type(error), match=str(error)):
        await gather_feedback([episode()], [JudgeFeedback(judge)])
    assert judge.closed


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sources": []}, "at least 1 item"),
        ({"sources": ["judge"]}, "needs judge.model"),
        ({"sources": ["judge"], "judge": {"model": "m"}}, "needs judge.rubric"),
        ({"sources": ["people"]}, "needs people=FILE"),
        ({"sources": ["environment", "environment"]}, "twice"),
        ({"weights": {"judge": 2.0}}, "sources has not"),
    ],
)
def test_incomplete_settings_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        FeedbackConfig.model_validate(settings)
