from service_cli.commands.demo import unsolved
from service_cli.policies.outcomes import EpisodeFailure, PlayedOutcome


def test_references_that_failed_are_named_with_what_became_of_them() -> None:
    outcomes = [
        PlayedOutcome("right", 1.0, score=1.0, success=True),
        PlayedOutcome("wrong", 1.0, score=0.8, success=False),
        PlayedOutcome("lost", 1.0, failed=EpisodeFailure("timeout", "step_timeout", "too late")),
    ]
    assert unsolved(outcomes) == ["wrong (score 0.8)", "lost (step_timeout)"]
