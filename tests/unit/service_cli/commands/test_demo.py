from service_cli.commands.demo import unsolved
from service_cli.policies.outcomes import EpisodeOutcome, Failed


def test_references_that_failed_are_named_with_what_became_of_them() -> None:
    outcomes = [
        EpisodeOutcome("right", 1.0, score=1.0, success=True),
        EpisodeOutcome("wrong", 1.0, score=0.8, success=False),
        EpisodeOutcome("lost", 1.0, failed=Failed("timeout", "step_timeout", "too late")),
    ]
    assert unsolved(outcomes) == ["wrong (score 0.8)", "lost (step_timeout)"]
