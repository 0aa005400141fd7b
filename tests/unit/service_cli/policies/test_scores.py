from rich.console import Console

from service_cli.policies.display import summary_view
from service_cli.policies.outcomes import EpisodeFailure, PlayedOutcome
from service_cli.policies.scores import (
    PolicyRunSummary,
    ending_counts,
    failure_counts,
    group,
    groups,
    retry_counts,
)

OUTCOMES = [
    PlayedOutcome("a", 1.0, difficulty="easy", score=1.0, success=True),
    PlayedOutcome("b", 1.0, difficulty="easy", score=0.5, success=False),
    PlayedOutcome("c", 1.0, difficulty="hard", failed=EpisodeFailure("sandbox", "instance_lost", "gone")),
]


def test_a_failure_is_never_a_score() -> None:
    overall = group("all", OUTCOMES)
    assert (overall.episodes, overall.graded, overall.successes, overall.mean_score) == (3, 2, 1, 0.75)
    assert failure_counts(OUTCOMES) == {"sandbox": 1}


def test_groups_are_by_value_and_a_group_without_verdicts_has_no_mean() -> None:
    easy, hard = groups(OUTCOMES, "difficulty")
    assert (easy.name, easy.successes) == ("easy", 1)
    assert (hard.graded, hard.mean_score) == (0, None)
    assert groups(OUTCOMES, "category") == ()


def test_steps_and_tokens_are_summed_up_and_a_failed_episode_has_used_tokens_too() -> None:
    outcomes = [
        PlayedOutcome("a", 1.0, steps=4, score=0.0, success=False, tokens_in=10, tokens_out=1),
        PlayedOutcome("b", 1.0, steps=2, score=1.0, success=True, tokens_in=10, tokens_out=1),
        PlayedOutcome("c", 1.0, steps=9, failed=EpisodeFailure("policy", "model_failed", ""), tokens_in=5),
    ]
    overall = group("all", outcomes)
    assert (overall.mean_steps, overall.tokens_in, overall.tokens_out) == (3.0, 25, 2)
    assert failure_counts(outcomes, codes=True) == {"policy/model_failed": 1}


def test_a_task_counts_for_pass_at_k_when_one_of_its_episodes_solved_it() -> None:
    verdicts = [("a", True), ("a", False), ("b", False), ("b", False), ("c", None)]
    outcomes = [
        PlayedOutcome(task, 1.0, score=None if solved is None else float(solved), success=solved)
        for task, solved in verdicts
    ]
    overall = group("all", outcomes)
    assert (overall.success_rate, overall.pass_at_k) == (0.25, 0.5)
    assert group("none", []).pass_at_k is None


def test_endings_are_of_graded_episodes() -> None:
    full = PlayedOutcome("a", 1.0, score=0.0, success=False, ended="context_length")
    lost = PlayedOutcome("b", 1.0, failed=EpisodeFailure("sandbox", "x", ""), ended="context_length")
    assert ending_counts([full, lost, PlayedOutcome("c", 1.0)]) == {"context_length": 1}


def shown(outcomes: list[PlayedOutcome], **fields: object) -> str:
    summary = PolicyRunSummary(
        environment="echo",
        splits=("train",),
        policy="p",
        concurrency=1,
        elapsed_s=2.0,
        overall=group("all", outcomes),
        by_difficulty=groups(outcomes, "difficulty"),
        by_category=groups(outcomes, "category"),
        failures=failure_counts(outcomes),
        latencies=(),
        failure_codes=failure_counts(outcomes, codes=True),
        endings=ending_counts(outcomes),
        **fields,  # type: ignore[arg-type]
    )
    console = Console(width=140, color_system=None)
    with console.capture() as captured:
        console.print(summary_view(summary, outcomes))
    return captured.get()


def test_the_table_has_a_row_for_every_difficulty_and_category() -> None:
    text = shown(
        [PlayedOutcome("a", 1.0, difficulty="easy", category="maths", steps=3, score=0.5, success=False)]
    )
    rows = [line.replace("│", " ").split() for line in text.splitlines()]
    for name in ("all", "easy", "maths"):
        assert [name, "1", "1", "0", "0.0%", "0.500", "3.0"] in rows
    assert "tokens in" not in text
    assert "pass@" not in text


def test_tokens_and_pass_at_k_are_shown_where_there_are_any() -> None:
    outcomes = [
        PlayedOutcome("a", 1.0, score=1.0, success=True, tokens_in=1234, ended="context_length", cut=1)
    ]
    text = shown(outcomes, repeat=4, model_calls=7, cut=1)
    for word in (
        "pass@4, incomplete",
        "pass@4 is incomplete: a task has 1 of 4 episodes graded",
        "tokens in",
        "1,234",
        "ended by the policy: context_length",
        "1 of 7 answers were truncated",
    ):
        assert word in text


def test_pass_at_k_is_complete_with_k_graded_episodes_of_each_task() -> None:
    text = shown([PlayedOutcome("a", 1.0, score=1.0, success=True)] * 2, repeat=2)
    assert "pass@2" in text
    assert "incomplete" not in text


def test_episodes_that_were_played_again_are_shown_by_the_reason() -> None:
    starved = EpisodeFailure("timeout", "deadline_exceeded", "busy")
    outcomes = [PlayedOutcome("a", 1.0, score=1.0, success=True, retried=(starved, starved))]
    assert retry_counts(outcomes) == {"timeout/deadline_exceeded": 2}
    text = shown(outcomes, retries=retry_counts(outcomes))
    assert "played again in a fresh instance after timeout/deadline_exceeded: 2 times" in text
    assert "Failed episodes" not in text


def test_failures_are_shown_by_class_and_code() -> None:
    text = shown([PlayedOutcome("c", 1.0, failed=EpisodeFailure("policy", "model_failed", "down"))])
    assert "policy/model_failed" in text
    assert "c: down" in text
